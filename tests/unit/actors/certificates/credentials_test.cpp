#include "actors/certificates/certificate.hpp"
#include "actors/certificates/credentials.hpp"
#include "actors/certificates/private_file.hpp"
#include "kernels/base/error.hpp"
#include "tests/unit/actors/job_certificates.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>

using namespace troupe;

namespace credentials {
namespace {

const MemberName worker_1 = *parse_member_name("worker:1");

/// The line that it is refused with; empty: it is not.
std::string refusal(const CertificateSource& source, const MemberName& name) {
  try {
    load_credentials(source, name);
    return {};
  } catch (const InputError& refused) {
    return refused.what();
  }
}

bool says(const std::string& line, const std::string& part) {
  return line.find(part) != std::string::npos;
}

} // namespace
} // namespace credentials

BOOST_FIXTURE_TEST_SUITE(credentials, test::Folder)

BOOST_AUTO_TEST_CASE(with_the_authoritys_key_a_process_is_whoever_it_likes) {
  for (const auto& name : {worker_1, operator_name, coordinator_name}) {
    const auto made = make_credentials(path + "/own", name);
    BOOST_CHECK(name_in(certificate_in(made.certificate).get()) == name);
    BOOST_TEST(made.authority_key.empty() == false);
  }
  // Each start has a key of its own.
  BOOST_TEST(load_credentials(path + "/own", worker_1).key
             != load_credentials(path + "/own", worker_1).key);
}

BOOST_AUTO_TEST_CASE(without_it_a_process_is_whom_it_was_made) {
  const auto own = make_credentials(path + "/own", operator_name);
  save_credentials(path + "/one", make_member(own, worker_1));
  BOOST_TEST(refusal(path + "/one", worker_1) == "");
  BOOST_TEST(
    says(refusal(path + "/one", operator_name), "no certificate for operator"));
  BOOST_CHECK_THROW(make_member(load_credentials(path + "/one", worker_1),
                                operator_name),
                    InputError);
  // Of another job's authority there is room elsewhere only.
  const auto other = make_credentials(path + "/other", operator_name);
  BOOST_CHECK_THROW(
    save_credentials(path + "/one", make_member(other, worker_1)), InputError);
}

BOOST_AUTO_TEST_CASE(dates_are_held_against_the_clock) {
  CertificateSource source{path + "/own"};
  source.valid_seconds = 100;
  const auto own = make_credentials(source, operator_name);
  source.path = path + "/one";
  save_credentials(source.path, make_member(own, worker_1));
  BOOST_TEST(refusal(source, worker_1) == "");
  for (int64_t offset : {-4'000, 200}) {
    source.clock_offset_s = offset;
    const auto line = refusal(source, worker_1);
    BOOST_TEST(says(line, "is valid from "), line);
    BOOST_TEST(says(line, date(source.now()).substr(0, 13)), line);
  }
}

// Symptom: a host's clock was set back by days, and the next role that died
// could not be started again. Cause: all that the run had made was not valid
// yet.
BOOST_AUTO_TEST_CASE(whose_clock_is_held_judges_by_the_time_that_went_by) {
  constexpr int64_t day = 24 * 3600;
  for (const int64_t set_by : {-3 * day, 40 * day}) {
    auto source = held_clock(CertificateSource{path});
    BOOST_TEST(std::abs(source.now() - CertificateSource{}.now()) <= 1);
    source.boot_s -= set_by; // it began before the clock was set
    const auto authority = make_authority(source);
    const auto text = to_bundle(make_member(authority, worker_1));
    write_private(path + "/held", text);
    BOOST_TEST(refusal(path + "/held", worker_1) == "");
    write_private(path + "/free", text.substr(0, text.find("# boot time")));
    const auto line = refusal(path + "/free", worker_1);
    BOOST_TEST(says(line, "is valid from "), line);
    const auto loaded = load_credentials(path + "/held", worker_1);
    BOOST_TEST(loaded.source.boot_s == source.boot_s);
    BOOST_TEST(make_member(authority, worker_1).source.boot_s == source.boot_s);
  }
}

BOOST_AUTO_TEST_SUITE_END()
