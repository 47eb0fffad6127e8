#include "actors/certificates/certificate_desk.hpp"
#include "actors/certificates/join_token.hpp"
#include "actors/certificates/revocations.hpp"
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
    open();
  }

  /// As a coordinator that leads does, which is started again.
  void open(const std::map<std::string, int64_t>& used = {}) {
    auto own = make_member(authority, coordinator_name);
    own.authority_key = authority.authority_key;
    tls = std::make_shared<TlsContext>(own);
    desk = std::make_shared<CertificateDesk>(tls);
    desk->lead(
      [this](const CertificateRecord& record, std::function<void()> done) {
        records.push_back(record);
        kept = std::move(done);
        if (keeps)
          kept();
      },
      used);
  }

  std::string answer(const MemberName& peer, const std::string& text) {
    std::string said;
    desk->answer(peer, text, [&](const std::string& x) { said = x; });
    return said;
  }

  std::string join(const std::string& token, const MemberName& name) {
    return answer({}, to_text({Petition::Kind::join, name, token,
                               to_pem(make_request(key.get()).get())}));
  }

  bool is_revoked(const MemberName& name, const Period& period) const {
    return tls->revocations()->is_revoked(name, period);
  }

  std::string token(const MemberName& name, int64_t seconds = 60) {
    return to_string(make_token(authority, name, seconds));
  }

  test::Folder folder;
  Credentials authority;
  std::shared_ptr<TlsContext> tls;
  std::shared_ptr<CertificateDesk> desk;
  bool keeps = true; ///< at once
  std::vector<CertificateRecord> records;
  std::function<void()> kept; ///< of the newest
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
  open();
  BOOST_TEST(is_refused(join(once, worker_1), "used before"));
}

// Symptom: a token could be used once more after a failover. Cause: who had
// used it was known to the folder of one coordinator alone.
BOOST_AUTO_TEST_CASE(the_next_coordinator_is_told_of_used_tokens) {
  const auto once = token(worker_1);
  keeps = false;
  std::string said;
  desk->answer({},
               to_text({Petition::Kind::join, worker_1, once,
                        to_pem(make_request(key.get()).get())}),
               [&](const std::string& x) { said = x; });
  BOOST_TEST(said.empty()); // it is not kept yet
  BOOST_REQUIRE(records.size() == 1u);
  BOOST_CHECK(records[0].kind == CertificateRecord::Kind::token_used);
  BOOST_TEST(records[0].nonce == parse_token(once)->nonce);
  kept();
  BOOST_TEST(said.starts_with("ok\n"));
  keeps = true;
  std::filesystem::remove_all(folder.path + "/used-tokens"); // another host
  open({{records[0].nonce, records[0].until}});
  BOOST_TEST(is_refused(join(once, worker_1), "used before"));
}

BOOST_AUTO_TEST_CASE(one_that_does_not_lead_takes_no_token_and_revokes_nobody) {
  desk = std::make_shared<CertificateDesk>(tls);
  BOOST_TEST(is_refused(join(token(worker_1), worker_1), "leads"));
  BOOST_TEST(is_refused(
    answer(operator_name, to_text({Petition::Kind::revoke, worker_1, {}, {}})),
    "leads"));
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
    BOOST_TEST(is_refused(answer(worker_1, end), "another"), end);
  BOOST_TEST(is_refused(answer(worker_1, whole), "no request"));
}

BOOST_AUTO_TEST_CASE(a_member_renews_its_own_certificate_alone) {
  const auto request = to_pem(make_request(key.get()).get());
  const auto renew = [&](const MemberName& peer, const MemberName& whose) {
    return answer(peer, to_text({Petition::Kind::renew, whose, {}, request}));
  };
  BOOST_TEST(renew(worker_1, worker_1).starts_with("ok\n"));
  BOOST_TEST(is_refused(renew(worker_1, operator_name), "worker:1"));
  BOOST_TEST(is_refused(renew({}, worker_1), "nobody"));
}

BOOST_AUTO_TEST_CASE(an_operator_revokes_and_nobody_else) {
  const auto text = to_text({Petition::Kind::revoke, worker_1, {}, {}});
  const Period issued{authority.source.now() - 3600, 1L << 40};
  BOOST_TEST(is_refused(answer(coordinator_name, text), "coordinator"));
  BOOST_TEST(records.empty());
  BOOST_TEST(!is_revoked(worker_1, issued));
  BOOST_TEST(answer(operator_name, text) == "ok\n");
  BOOST_REQUIRE(records.size() == 1u);
  BOOST_CHECK(records[0].name == worker_1);
  BOOST_TEST(is_revoked(worker_1, issued));
  BOOST_TEST(!is_revoked(worker_1, {issued.from + 60, issued.to}));
  BOOST_TEST(!is_revoked(operator_name, issued));
  // It is written down.
  open();
  BOOST_TEST(is_revoked(worker_1, issued));
}

BOOST_AUTO_TEST_CASE(a_revocation_is_kept_before_it_holds_and_is_answered) {
  keeps = false;
  std::string said;
  desk->answer(operator_name,
               to_text({Petition::Kind::revoke, worker_1, {}, {}}),
               [&](const std::string& x) { said = x; });
  const Period issued{authority.source.now() - 3600, 1L << 40};
  BOOST_TEST(said.empty());
  BOOST_TEST(!is_revoked(worker_1, issued));
  kept();
  BOOST_TEST(said == "ok\n");
  BOOST_TEST(is_revoked(worker_1, issued));
}

BOOST_AUTO_TEST_SUITE_END()
