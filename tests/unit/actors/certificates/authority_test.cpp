// Symptom: a standby on another host signed only with a copy of the authority's
// private key. Cause: there was one authority, and nothing below it.

#include "actors/certificates/certificate_desk.hpp"
#include "actors/certificates/join_token.hpp"
#include "actors/certificates/revocations.hpp"
#include "kernels/base/error.hpp"
#include "tests/unit/actors/links/link_party.hpp"

#include <boost/test/unit_test.hpp>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <csignal>
#include <future>

using namespace troupe;

namespace authority {
namespace {

const MemberName worker_2 = *parse_member_name("worker:2");
const MemberName standby = *parse_member_name("authority:1");

struct Bench {
  Bench() : root(make_authority(CertificateSource{folder.path})) {
    below = root;
    const auto key = make_key();
    below.signer = to_pem(sign_below(root, key.get()).get());
    below.authority_key = to_pem(key.get());
  }
  ~Bench() { std::signal(SIGPIPE, before); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  static Certificate sign_below(const Credentials& by, EVP_PKEY* key,
                                const MemberName& name = standby) {
    const auto above = certificate_in(signer_of(by));
    const auto secret = key_in(by.authority_key);
    return issue_authority(name, key, above.get(), secret.get(),
                           by.source.now());
  }

  /// A desk of who leads with that authority's key.
  std::shared_ptr<CertificateDesk> desk_of(const Credentials& by) const {
    auto own = make_member(by, coordinator_name);
    own.authority_key = by.authority_key;
    own.signer = by.signer;
    auto desk =
      std::make_shared<CertificateDesk>(std::make_shared<TlsContext>(own));
    desk->lead([](const CertificateRecord&, const std::function<void()>& kept) {
      kept();
    });
    return desk;
  }

  static std::string join(const std::shared_ptr<CertificateDesk>& desk,
                          const JoinToken& token) {
    const auto key = make_key();
    std::string said;
    desk->answer({},
                 to_text({Petition::Kind::join, token.name, to_string(token),
                          to_pem(make_request(key.get()).get())}),
                 [&](const std::string& x) { said = x; });
    return said;
  }

  /// OpenSSL writes to connections that were ended.
  void (*before)(int) = std::signal(SIGPIPE, SIG_IGN);
  test::Folder folder;
  Credentials root;
  Credentials below; ///< an authority, as a standby has it
};

/// Why `judge` does not take what the other one shows; empty: it does.
std::string refusal(const TlsContext& judge, const Credentials& shown) {
  int ends[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                == 0);
  auto other = std::async(std::launch::async, [&, end = Descriptor{ends[1]}] {
    const TlsContext tls{shown};
    const auto session = tls.open(end.get(), false);
    SSL_do_handshake(session.get());
    take_tls_error();
  });
  std::string why;
  const Descriptor end{ends[0]};
  const auto session = judge.open(end.get(), true);
  if (SSL_do_handshake(session.get()) != 1)
    why = take_tls_error();
  other.wait();
  return why;
}

bool has(const std::string& line, const std::string& part) {
  return line.find(part) != std::string::npos;
}

} // namespace
} // namespace authority

BOOST_FIXTURE_TEST_SUITE(authority, Bench)

// Symptom: Python 3.13 read no page of metrics: "Missing Authority Key
// Identifier". It verifies strictly (RFC 5280) where nothing else is asked for.
BOOST_AUTO_TEST_CASE(a_member_s_chain_holds_where_it_is_verified_strictly) {
  Bench bench;
  const auto root = certificate_in(bench.root.authority);
  const auto between = certificate_in(signer_of(bench.below));
  const auto member =
    certificate_in(make_member(bench.below, worker_2).certificate);
  BOOST_REQUIRE((root && between && member));
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store{
    X509_STORE_new(), X509_STORE_free};
  X509_STORE_add_cert(store.get(), root.get());
  X509_STORE_set_flags(store.get(), X509_V_FLAG_X509_STRICT);
  const std::unique_ptr<STACK_OF(X509), void (*)(STACK_OF(X509)*)> above{
    sk_X509_new_null(), [](STACK_OF(X509) * x) { sk_X509_free(x); }};
  sk_X509_push(above.get(), between.get());
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> verify{
    X509_STORE_CTX_new(), X509_STORE_CTX_free};
  X509_STORE_CTX_init(verify.get(), store.get(), member.get(), above.get());
  const auto holds = X509_verify_cert(verify.get());
  BOOST_TEST(holds == 1, X509_verify_cert_error_string(
                           X509_STORE_CTX_get_error(verify.get())));
}

BOOST_AUTO_TEST_CASE(what_one_below_signs_is_good_everywhere) {
  const TlsContext by_root{make_member(root, test::worker(0))};
  const TlsContext by_standby{make_member(below, test::worker(1))};
  BOOST_TEST(refusal(by_root, make_member(below, worker_2)) == "");
  BOOST_TEST(refusal(by_standby, make_member(root, worker_2)) == "");
  BOOST_TEST(refusal(by_standby, make_member(below, worker_2)) == "");
}

BOOST_AUTO_TEST_CASE(members_and_authorities_below_make_no_authority) {
  const TlsContext judge{make_member(root, test::worker(0))};
  // A member signs for another one.
  auto member = root;
  const auto own = make_member(root, worker_2);
  member.signer = own.certificate;
  member.authority_key = own.key;
  BOOST_TEST(refusal(judge, make_member(member, test::worker(1))) != "");
  // An authority below makes one more.
  auto third = below;
  const auto key = make_key();
  third.signer = to_pem(sign_below(below, key.get()).get()) + below.signer;
  third.authority_key = to_pem(key.get());
  BOOST_TEST(refusal(judge, make_member(third, test::worker(1))) != "");
  // Nor does it speak itself.
  auto itself = make_member(root, worker_2);
  itself.certificate = below.signer;
  itself.key = below.authority_key;
  BOOST_TEST(refusal(judge, itself) != "");
  BOOST_CHECK_THROW(make_member(root, standby), InputError);
  BOOST_TEST(X509_check_ca(certificate_in(own.certificate).get()) == 0);
}

BOOST_AUTO_TEST_CASE(names_are_held_against_whoever_signed_them) {
  const TlsContext judge{make_member(root, test::worker(0))};
  const auto key = make_key();
  auto signing = below;
  signing.signer = to_pem(sign_below(root, key.get(), worker_2).get());
  signing.authority_key = to_pem(key.get());
  BOOST_TEST(has(refusal(judge, make_member(signing, test::worker(1))),
                 "worker:2 signs for nobody"));
  auto speaking = make_member(root, worker_2);
  speaking.certificate =
    to_pem(issue(standby, key.get(), certificate_in(root.authority).get(),
                 key_in(root.authority_key).get(), root.source.now(), 60)
             .get());
  speaking.key = to_pem(key.get());
  BOOST_TEST(
    has(refusal(judge, speaking), "authority:1 is no member of a job"));
}

BOOST_AUTO_TEST_CASE(one_below_is_revoked_with_all_that_it_signed) {
  TlsContext judge{make_member(root, test::worker(0))};
  judge.revoke(standby, root.source.now());
  BOOST_TEST(has(refusal(judge, make_member(below, worker_2)),
                 "authority:1 is revoked"));
  BOOST_TEST(refusal(judge, make_member(root, worker_2)) == "");
}

BOOST_AUTO_TEST_CASE(a_connection_ends_with_its_certificate) {
  const auto shown = make_member(below, worker_2);
  for (const auto& whom : {standby, worker_2}) {
    TlsContext judge{make_member(root, test::worker(0))};
    int ends[2];
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                  == 0);
    const Descriptor one{ends[0]};
    const Descriptor other{ends[1]};
    const TlsContext tls{shown};
    const auto dialled = tls.open(other.get(), true);
    const auto taken = judge.open(one.get(), false);
    auto shake = std::async(std::launch::async,
                            [&] { SSL_do_handshake(dialled.get()); });
    BOOST_REQUIRE(SSL_do_handshake(taken.get()) == 1);
    shake.wait();
    const auto entries = judge.enter(taken.get(), one.get());
    judge.revoke(whom, root.source.now());
    char byte = 0;
    pollfd ended{other.get(), POLLIN, 0};
    BOOST_TEST_REQUIRE(::poll(&ended, 1, 10'000) == 1);
    BOOST_TEST(SSL_read(dialled.get(), &byte, 1) <= 0);
    // One that was on its way meanwhile ends at once.
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                  == 0);
    const Descriptor late{ends[0]};
    const Descriptor peer{ends[1]};
    const auto more = judge.enter(taken.get(), late.get());
    BOOST_TEST(::send(late.get(), &byte, 1, MSG_NOSIGNAL) == -1);
  }
}

BOOST_AUTO_TEST_CASE(tokens_of_the_authority_and_of_the_one_below) {
  const auto of_root = make_token(root, worker_2, 60);
  const auto of_standby = make_token(below, worker_2, 60);
  BOOST_TEST(is_genuine(of_root, root));
  BOOST_TEST(is_genuine(of_root, below)); // also after a failover
  BOOST_TEST(is_genuine(of_standby, below));
  BOOST_TEST(!is_genuine(of_standby, root));
  BOOST_TEST(join(desk_of(below), of_root).starts_with("ok\n"));
}

BOOST_AUTO_TEST_CASE(only_the_jobs_own_authority_makes_one_below) {
  const auto token = make_token(root, standby, 60);
  const auto made = join(desk_of(root), token);
  BOOST_REQUIRE(made.starts_with("ok\n"));
  const auto second = made.find("-----BEGIN", root.authority.size());
  const auto certificate = certificate_in(made.substr(second));
  BOOST_CHECK(name_in(certificate.get()) == standby);
  BOOST_TEST(X509_check_ca(certificate.get()) == 1);
  BOOST_TEST(X509_get_pathlen(certificate.get()) == 0);
  BOOST_TEST(has(join(desk_of(below), make_token(root, standby, 60)),
                 "refused: only who has ca.key"));
}

BOOST_AUTO_TEST_SUITE_END()
