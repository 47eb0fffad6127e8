#pragma once

#include "actors/control/actor_node.hpp"
#include "actors/control/peer_directory.hpp"
#include "actors/shard/shard.hpp"
#include "tests/unit/actors/made_up_pushes.hpp"
#include "tests/unit/actors/small_job.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <vector>

namespace troupe::test {

using namespace std::chrono_literals;

/// Shards whose coordinator and workers are a test.
struct ShardBench {
  static constexpr auto patience = 30s;
  static constexpr uint64_t job_id = 9;

  explicit ShardBench(JobOptions options)
    : config(Credentials{}),
      system(config),
      coordinator(system),
      job(std::make_shared<const Job>(std::move(options), 500)) {}

  ~ShardBench() {
    for (auto& [index, shard] : shards)
      caf::anon_send_exit(shard, caf::exit_reason::user_shutdown);
  }

  static JobOptions served(uint32_t shards = 1, uint32_t chain = 1) {
    auto options = small_job();
    options.strategy = Strategy::parameter_server;
    options.shards = shards;
    options.chain = chain;
    return options;
  }

  /// A shard with what the plan gives it, or with a store that is there.
  void spawn(uint32_t index, std::shared_ptr<ShardStore> store = nullptr) {
    RoleContext context;
    context.job = job;
    context.job_id = job_id;
    context.role = {RoleKind::shard, index};
    context.incarnation = 1;
    context.coordinator = caf::actor_cast<coordinator_actor>(coordinator.ptr());
    context.metrics = std::make_shared<MetricRegistry>();
    std::vector<uint32_t> first;
    for (const auto& role : job->plan.roles)
      if (role.role == context.role)
        first = role.slices;
    stores[index] = store
                      ? std::move(store)
                      : std::make_shared<ShardStore>(*job, first, job_id, -1);
    shards[index] = spawn_shard(system, context, stores[index]);
    system.registry().put(
      local_name(job_id, context.role),
      caf::actor_cast<caf::strong_actor_ptr>(shards[index]));
  }

  /// As kill -9: what was on the way to it, and from it, is lost.
  void kill(uint32_t index) {
    coordinator->monitor(shards.at(index));
    caf::anon_send_exit(shards.at(index), caf::exit_reason::kill);
    expect<caf::down_msg>(coordinator);
    shards.erase(index);
    system.registry().erase(local_name(job_id, {RoleKind::shard, index}));
  }

  /// The next epoch of all that are there; returns what they sealed.
  std::map<uint32_t, Sealed> begin_epoch(std::vector<SliceChain> chains = {}) {
    ++fence.epoch;
    std::map<uint32_t, Sealed> seals;
    for (auto& [index, shard] : shards)
      coordinator->send(shard, Propose{fence});
    for (size_t i = 0; i < shards.size(); ++i) {
      auto seal = expect<Sealed>(coordinator);
      seals[seal.role.index] = seal;
    }
    Activate activation;
    activation.fence = fence;
    activation.chains = std::move(chains);
    for (auto& [index, shard] : shards) {
      activation.members.push_back({{RoleKind::shard, index}, {}, {}});
      for (const auto& slice : seals[index].slices)
        activation.slices.push_back(slice);
    }
    for (auto& [index, shard] : shards)
      coordinator->send(shard, activation);
    return seals;
  }

  /// All slices with the same chain.
  std::vector<SliceChain> all(std::vector<uint32_t> replicas,
                              std::vector<uint32_t> learners = {}) const {
    std::vector<SliceChain> chains;
    for (const auto& slice : job->plan.slices)
      chains.push_back({slice.id, replicas, learners});
    return chains;
  }

  template <class Message>
  static Message expect(caf::scoped_actor& at) {
    Message got;
    bool late = false;
    at->receive([&](const Message& x) { got = x; },
                caf::after(patience) >> [&] { late = true; });
    BOOST_REQUIRE(!late);
    return got;
  }

  /// What all of `tails` serve of a version, slice by slice.
  std::map<uint32_t, std::vector<float>>
  pull(uint64_t version, const std::vector<uint32_t>& tails) {
    caf::scoped_actor worker{system};
    for (auto tail : tails)
      worker->send(shards.at(tail),
                   Pull{fence, {RoleKind::worker, 9}, version});
    std::map<uint32_t, std::vector<float>> got;
    while (got.size() < job->plan.slices.size()) {
      const auto pulled = expect<Pulled>(worker);
      const auto span = pulled.values.span();
      got[pulled.slice].assign(span.begin(), span.end());
    }
    return got;
  }

  std::vector<Push> pushes(uint64_t step) const {
    return made_up_pushes(*job, fence, step);
  }

  ActorConfig config;
  caf::actor_system system;
  caf::scoped_actor coordinator;
  std::shared_ptr<const Job> job;
  std::map<uint32_t, std::shared_ptr<ShardStore>> stores;
  std::map<uint32_t, shard_actor> shards;
  Fence fence{job_id, 1, 0};
};

} // namespace troupe::test
