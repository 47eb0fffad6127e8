#include "strategies/membership.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <random>
#include <set>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(membership_run)

namespace {

/// Feeds random events, late and repeated ones too, and checks every action
/// against its own account of who is present and who has sealed.
class RandomRun {
public:
  explicit RandomRun(uint32_t seed)
    : random_(seed),
      roles_(roles_of(seed)),
      elastic_(seed % 2 == 1),
      waits_(seed % 3 == 0),
      busy_(seed % 4 > 1),
      it_(options_of(roles_, elastic_, waits_, busy_), 0) {
    absent_.insert(roles_.begin(), roles_.end());
    for (auto role : roles_)
      newest_[role] = 0;
  }

  void event() {
    now_ += random_() % 300;
    auto role = roles_[random_() % roles_.size()];
    switch (random_() % 8) {
      case 0:
      case 1:
        join(role);
        break;
      case 2:
        lose(role, newest_[role] - back(newest_[role]));
        break;
      case 3: // a second copy
        if (newest_[role] > 0)
          check(it_.join(role, newest_[role], now_));
        break;
      case 4:
        check(it_.tick(now_));
        break;
      default:
        seal(role, newest_[role] - back(newest_[role]),
             proposed_ - back(proposed_));
    }
  }

  /// No more faults: everybody joins and seals.
  void settle() {
    for (auto role : roles_)
      if (absent_.contains(role))
        join(role);
    for (auto role : roles_)
      seal(role, newest_[role], proposed_);
    BOOST_TEST((it_.state() == Membership::State::active));
  }

  int activations = 0;
  int left_out = 0;

private:
  static constexpr RoleId first_worker{RoleKind::worker, 0};
  static constexpr RoleId first_shard{RoleKind::shard, 0};
  static constexpr uint64_t seal_deadline = 1000;
  static constexpr uint64_t busy_seal_deadline = 2500;

  static std::vector<RoleId> roles_of(uint32_t seed) {
    std::vector<RoleId> out{first_shard};
    for (uint32_t i = 0; i <= seed % 4; ++i)
      out.push_back({RoleKind::worker, i});
    return out;
  }

  static Membership::Options options_of(const std::vector<RoleId>& roles,
                                        bool elastic, bool waits, bool busy) {
    Membership::Options out;
    out.roles = roles;
    if (waits) // for nobody else
      out.awaited = [] { return std::set<RoleId>{first_worker}; };
    if (elastic) // a shard and a worker
      out.viable = [](const std::set<RoleId>& present) {
        return present.contains(first_shard) && present.size() > 1;
      };
    out.join_deadline_ms = 1'000'000;
    out.seal_deadline_ms = seal_deadline;
    out.busy_seal_deadline_ms = busy_seal_deadline;
    if (busy)
      out.silent_ms = [](RoleId) { return seal_deadline - 1; };
    return out;
  }

  /// Now and then 1: an event of the past.
  uint64_t back(uint64_t newest) {
    return newest > 0 && random_() % 4 == 0 ? 1 : 0;
  }

  void join(RoleId role) {
    absent_.erase(role);
    sealed_.erase(role);
    owes_since_.erase(role);
    check(it_.join(role, ++newest_[role], now_));
  }

  void lose(RoleId role, uint64_t incarnation) {
    if (incarnation == newest_[role])
      absent_.insert(role);
    check(it_.lost(role, incarnation, now_));
  }

  void seal(RoleId role, uint64_t incarnation, uint64_t epoch) {
    if (epoch == proposed_ && incarnation == newest_[role]
        && !absent_.contains(role)) {
      sealed_.insert(role);
      owes_since_.erase(role);
    }
    check(it_.sealed(role, incarnation, epoch, now_));
  }

  void check(const Membership::Actions& actions) {
    for (const auto& action : actions)
      std::visit([this](const auto& x) { take(x); }, action);
    BOOST_TEST((it_.state() != Membership::State::active || absent_.empty()
                || elastic_));
    BOOST_TEST(it_.epoch() == proposed_);
    auto absent = it_.absent();
    BOOST_TEST((std::set<RoleId>(absent.begin(), absent.end()) == absent_));
  }

  void take(const Membership::Propose& x) {
    BOOST_TEST(x.epoch > proposed_);
    BOOST_TEST(x.members.size() == roles_.size() - absent_.size());
    if (!elastic_ || activations == 0)
      BOOST_TEST(absent_.empty());
    else
      BOOST_TEST((x.members.size() > 1 && !absent_.contains(first_shard)));
    proposed_ = x.epoch;
    sealed_.clear();
    for (auto role : x.members)
      owes_since_.try_emplace(role, now_);
  }

  void take(const Membership::Activate& x) {
    BOOST_TEST(x.epoch == proposed_);
    BOOST_TEST(x.epoch > activated_);
    BOOST_TEST(sealed_.size() == roles_.size() - absent_.size());
    BOOST_TEST((!waits_ || !absent_.contains(first_worker)));
    activated_ = x.epoch;
    ++activations;
  }

  void take(const Membership::LeaveOut& x) {
    BOOST_TEST(x.incarnation == newest_[x.role]);
    BOOST_TEST(!sealed_.contains(x.role));
    BOOST_TEST(now_ - owes_since_.at(x.role)
               >= (busy_ ? busy_seal_deadline : seal_deadline));
    owes_since_.erase(x.role);
    absent_.insert(x.role);
    ++left_out;
  }

  void take(const Membership::Await& x) {
    BOOST_TEST((waits_ && x.roles == std::vector<RoleId>{first_worker}));
    BOOST_TEST(absent_.contains(first_worker));
    BOOST_TEST(sealed_.size() == roles_.size() - absent_.size());
  }

  void take(const Membership::Fail& x) {
    BOOST_ERROR("nobody stays away that long: " << x.reason);
  }

  std::mt19937 random_;
  std::vector<RoleId> roles_;
  bool elastic_;
  bool waits_;
  bool busy_; ///< heard of all the time
  Membership it_;
  std::map<RoleId, uint64_t> newest_; ///< incarnation
  std::set<RoleId> absent_;
  std::set<RoleId> sealed_; ///< the newest epoch, by the newest incarnation
  std::map<RoleId, uint64_t> owes_since_; ///< a seal
  uint64_t now_ = 0;
  uint64_t proposed_ = 0;
  uint64_t activated_ = 0;
};

} // namespace

BOOST_AUTO_TEST_CASE(random_events_never_activate_an_incomplete_epoch) {
  // I4: epochs strictly increase, one decision each. I11: it settles at last.
  int activations = 0;
  int left_out = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    RandomRun run{seed};
    for (int i = 0; i < 300; ++i)
      run.event();
    run.settle();
    activations += run.activations;
    left_out += run.left_out;
  }
  BOOST_TEST(activations > 1000); // the events really met
  BOOST_TEST(left_out > 100);
}

BOOST_AUTO_TEST_SUITE_END()
