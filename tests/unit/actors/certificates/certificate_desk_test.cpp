#include "actors/certificates/certificate_desk.hpp"
#include "actors/certificates/join_token.hpp"
#include "kernels/base/error.hpp"
#include "tests/unit/actors/links/link_party.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

namespace certificate_desk {
namespace {

const MemberName worker_1 = *parse_member_name("worker:1");

struct Bench {
  Bench() {
    authority = make_authority(CertificateSource{folder.path});
    desk = std::make_unique<CertificateDesk>(authority, revoked);
  }

  std::string join(const std::string& token, const MemberName& name) {
    return desk->answer({}, to_text({Petition::Kind::join, name, token,
                                     to_pem(make_request(key.get()).get())}));
  }

  std::string token(const MemberName& name, int64_t seconds = 60) {
    return to_string(make_token(authority, name, seconds));
  }

  test::Folder folder;
  Credentials authority;
  std::shared_ptr<Revocations> revoked = std::make_shared<Revocations>();
  std::unique_ptr<CertificateDesk> desk;
  Key key = make_key();
};

bool is_refused(const std::string& answer, const std::string& why) {
  return answer.starts_with("refused: ")
         && answer.find(why) != std::string::npos;
}

} // namespace
} // namespace certificate_desk

BOOST_FIXTURE_TEST_SUITE(certificate_desk, Bench)

BOOST_AUTO_TEST_CASE(a_token_gets_one_certificate_for_the_askers_own_key) {
  const auto once = token(worker_1);
  const auto answer = join(once, worker_1);
  BOOST_TEST_REQUIRE(answer.starts_with("ok\n"), answer);
  const auto second = answer.find("-----BEGIN CERTIFICATE-----",
                                  authority.authority.size());
  const auto made = certificate_in(answer.substr(second));
  BOOST_REQUIRE(made != nullptr);
  BOOST_CHECK(name_in(made.get()) == worker_1);
  BOOST_TEST(X509_check_private_key(made.get(), key.get()) == 1);
  BOOST_TEST(is_refused(join(once, worker_1), "used before"));
  // A coordinator that is started again knows that, too.
  desk = std::make_unique<CertificateDesk>(authority, revoked);
  BOOST_TEST(is_refused(join(once, worker_1), "used before"));
}

BOOST_AUTO_TEST_CASE(a_token_that_is_another_in_any_way_gets_none) {
  BOOST_TEST(is_refused(join(token(worker_1), operator_name), "worker:1"));
  BOOST_TEST(is_refused(join(token(worker_1, -1), worker_1), "held until"));
  BOOST_TEST(is_refused(join("", worker_1), "not made for this job"));
  auto other = token(worker_1);
  for (size_t i = 0; i < other.size(); ++i) {
    auto changed = other;
    changed[i] = changed[i] == '1' ? '2' : '1';
    BOOST_TEST(join(changed, worker_1).starts_with("refused: "), changed);
  }
  const auto strange = make_authority(CertificateSource{folder.path});
  BOOST_TEST(
    is_refused(join(to_string(make_token(strange, worker_1, 60)), worker_1),
               "not made for this job"));
}

BOOST_AUTO_TEST_CASE(what_is_no_petition_is_refused) {
  const auto whole = to_text({Petition::Kind::renew, worker_1, {}, "x"});
  BOOST_TEST(is_whole(whole));
  for (size_t size = 0; size < whole.size(); ++size)
    BOOST_TEST(!petition_of(whole.substr(0, size)).has_value());
  for (const auto* end : {"hello\nend\n", "troupe certificates 1\nend\n",
                          "troupe certificates 1\njoin\nworker:1\nend\n"})
    BOOST_TEST(is_refused(desk->answer(worker_1, end), "another"), end);
  BOOST_TEST(is_refused(desk->answer(worker_1, whole), "no request"));
}

BOOST_AUTO_TEST_CASE(a_member_renews_its_own_certificate_alone) {
  const auto request = to_pem(make_request(key.get()).get());
  const auto renew = [&](const MemberName& peer, const MemberName& whose) {
    return desk->answer(peer,
                        to_text({Petition::Kind::renew, whose, {}, request}));
  };
  BOOST_TEST(renew(worker_1, worker_1).starts_with("ok\n"));
  BOOST_TEST(is_refused(renew(worker_1, operator_name), "worker:1"));
  BOOST_TEST(is_refused(renew({}, worker_1), "nobody"));
}

BOOST_AUTO_TEST_CASE(an_operator_revokes_and_nobody_else) {
  const auto text = to_text({Petition::Kind::revoke, worker_1, {}, {}});
  MemberName told;
  desk->revoked = [&](const MemberName& name) { told = name; };
  const Period issued{authority.source.now() - 3600, 1L << 40};
  BOOST_TEST(is_refused(desk->answer(coordinator_name, text), "coordinator"));
  BOOST_TEST(!revoked->is_revoked(worker_1, issued));
  BOOST_TEST(desk->answer(operator_name, text) == "ok\n");
  BOOST_CHECK(told == worker_1);
  BOOST_TEST(revoked->is_revoked(worker_1, issued));
  BOOST_TEST(!revoked->is_revoked(worker_1, {issued.from + 60, issued.to}));
  BOOST_TEST(!revoked->is_revoked(operator_name, issued));
  // It is written down.
  auto again = std::make_shared<Revocations>();
  const CertificateDesk next{authority, again};
  BOOST_TEST(again->is_revoked(worker_1, issued));
}

BOOST_AUTO_TEST_SUITE_END()
