#include "actors/certificates/certificate.hpp"
#include "actors/certificates/member_signer.hpp"
#include "kernels/base/error.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(member_signer)

namespace {

constexpr MemberName worker{MemberName::Kind::worker, 1};

} // namespace

BOOST_AUTO_TEST_CASE(a_key_that_stays_where_it_was_made_is_signed) {
  const auto authority = make_authority(CertificateSource{});
  MemberSigner signer{authority};
  const MemberRequest request;
  const auto signed_for = signer.sign(worker, request.request());
  BOOST_TEST(signed_for.find("PRIVATE KEY") == std::string::npos);
  const auto bundle = request.complete(signed_for);
  const auto certificate = certificate_in(
    bundle.substr(bundle.find("-----BEGIN", bundle.find("END CERT"))));
  const auto key = key_in(bundle);
  BOOST_REQUIRE(certificate);
  BOOST_REQUIRE(key);
  BOOST_TEST((name_in(certificate.get()) == worker));
  BOOST_TEST(X509_check_private_key(certificate.get(), key.get()) == 1);
  const auto above = certificate_in(authority.authority);
  const Key authority_key{X509_get_pubkey(above.get())};
  BOOST_TEST(X509_verify(certificate.get(), authority_key.get()) == 1);
  // Nobody who reads the request has the key.
  BOOST_TEST(request.request().find("PRIVATE KEY") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_clock_by_which_it_judges_stays_too) {
  const auto held = held_clock({});
  const MemberRequest request{held};
  BOOST_TEST(request.complete("").find(std::to_string(held.boot_s))
             != std::string::npos);
  BOOST_TEST(MemberRequest{}.complete("").find("boot") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_follows_a_revocation_is_newer_than_it) {
  const auto authority = make_authority(CertificateSource{});
  MemberSigner signer{authority};
  const auto begin_of_next = [&] {
    const auto text = signer.sign(worker, MemberRequest{}.request());
    return period_of(certificate_in(text.substr(text.find(
                                      "-----BEGIN", text.find("END CERT"))))
                       .get())
      .from;
  };
  const auto until = authority.source.now() + 100;
  const auto before = begin_of_next();
  signer.revoked(worker, until);
  BOOST_TEST(begin_of_next() >= before + 100);
}

BOOST_AUTO_TEST_CASE(what_is_no_request_is_refused) {
  MemberSigner signer{make_authority(CertificateSource{})};
  BOOST_CHECK_THROW(signer.sign(worker, "no request"), InputError);
  BOOST_CHECK_THROW(MemberSigner{Credentials{}}, InputError);
}

BOOST_AUTO_TEST_SUITE_END()
