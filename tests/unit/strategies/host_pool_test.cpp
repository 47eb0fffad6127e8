#include "strategies/host_pool.hpp"

#include <boost/test/unit_test.hpp>

#include <set>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(host_pool)

namespace {

RoleId worker(uint32_t index) {
  return {RoleKind::worker, index};
}
RoleId shard(uint32_t index) {
  return {RoleKind::shard, index};
}

Plan plan_of(uint32_t shards, uint32_t workers, uint32_t chain = 1) {
  Plan plan;
  plan.strategy = Strategy::parameter_server;
  plan.owner_kind = RoleKind::shard;
  plan.owners = shards;
  plan.chain = chain;
  for (uint32_t i = 0; i < shards * chain; ++i)
    plan.roles.push_back({shard(i), "cpu", {}, {}});
  for (uint32_t i = 0; i < workers; ++i)
    plan.roles.push_back({worker(i), "cpu:0", {}, {}});
  return plan;
}

} // namespace

BOOST_AUTO_TEST_CASE(roles_stay_until_their_host_has_gone) {
  HostPool pool{{{"a", 2}, {"b", 2}, {"c", 2}},
                {.min_hosts = 2, .max_hosts = 3, .owners = 1}};
  BOOST_TEST(!pool.place(worker(0)).has_value());
  pool.came(0);
  BOOST_TEST(!pool.enough());
  pool.came(1);
  BOOST_TEST(pool.enough());
  // Two replicas of one shard, apart.
  const std::set<size_t> hosts{*pool.place(shard(0)), *pool.place(shard(1))};
  BOOST_TEST(hosts.size() == 2u);
  BOOST_TEST(pool.place(worker(0)).has_value());
  BOOST_TEST(pool.place(worker(1)).has_value());
  BOOST_TEST(!pool.place(worker(2)).has_value()); // no slot is free
  BOOST_TEST(pool.free_slots() == 0u);
  BOOST_TEST(pool.workers() == 3u);
  const auto of_first = *pool.host_of(shard(0));
  const auto other = 1 - of_first;
  pool.went(of_first);
  BOOST_TEST(!pool.host_of(shard(0)).has_value());
  BOOST_TEST(*pool.place(shard(1)) == other);
  // Beside its other replica, and more than there are slots: it is needed.
  BOOST_TEST(*pool.place(shard(0)) == other);
  pool.came(2);
  BOOST_TEST(*pool.place(shard(0)) == other);
  BOOST_TEST(*pool.place(worker(2)) == 2u);
  pool.came(of_first);
  pool.went(other);
  BOOST_TEST(*pool.place(shard(0)) != *pool.place(shard(1)));
}

BOOST_AUTO_TEST_CASE(hosts_beyond_the_most_are_spare) {
  HostPool pool{{{"a", 1}, {"b", 1}, {"c", 1}},
                {.min_hosts = 1, .max_hosts = 2, .owners = 1}};
  pool.came(2);
  pool.came(0);
  pool.came(1);
  BOOST_TEST(pool.free_slots() == 2u);
  std::set<size_t> used{*pool.place(worker(0)), *pool.place(worker(1))};
  BOOST_TEST((used == std::set<size_t>{0, 2}));
  BOOST_TEST(!pool.place(worker(2)).has_value());
  pool.went(2);
  BOOST_TEST(*pool.place(worker(2)) == 1u);
}

BOOST_AUTO_TEST_CASE(who_has_left_takes_no_slot) {
  HostPool pool{{{"a", 1}}, {}};
  pool.came(0);
  BOOST_TEST(pool.place(worker(0)).has_value());
  BOOST_TEST(!pool.place(worker(1)).has_value());
  pool.forget(worker(0));
  BOOST_TEST(pool.place(worker(1)).has_value());
  BOOST_TEST(pool.workers() == 1u);
  BOOST_TEST((pool.on(0) == std::vector<RoleId>{worker(1)}));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_one_line) {
  const auto refusal = [](size_t least, size_t most, const Plan& plan,
                          uint32_t min_workers) {
    return HostPool{{{"a", 2}, {"b", 4}, {"c", 3}},
                    {.min_hosts = least, .max_hosts = most}}
      .refusal(plan, min_workers);
  };
  const auto has = [](const std::string& line, const char* part) {
    BOOST_TEST(line.find(part) != std::string::npos, line);
    BOOST_TEST(line.find('\n') == std::string::npos);
  };
  BOOST_TEST(refusal(2, 3, plan_of(2, 6), 3) == "");
  has(refusal(3, 2, plan_of(1, 6), 1), "the smaller one first");
  has(refusal(2, 4, plan_of(1, 6), 1), "3 hosts are named");
  has(refusal(2, 3, plan_of(1, 6), 0), "--workers MIN:MAX");
  has(refusal(1, 3, plan_of(1, 6, 2), 1), "--chain 2");
  has(refusal(2, 3, plan_of(2, 6), 4), "5 slots");
  auto staged = plan_of(0, 0);
  staged.strategy = Strategy::pipeline;
  staged.owner_kind = RoleKind::stage;
  has(refusal(2, 3, staged, 1), "--strategy pipeline");
}

BOOST_AUTO_TEST_SUITE_END()
