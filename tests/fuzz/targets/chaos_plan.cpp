// The file that `troupe chaos --plan` names.

#include "apps/chaos/plan_file.hpp"
#include "tests/fuzz/input.hpp"

using namespace troupe;

namespace {

Plan plan() {
  Plan made;
  made.strategy = Strategy::parameter_server;
  made.processes = true;
  made.owner_kind = RoleKind::shard;
  made.owners = 2;
  made.chain = 2;
  auto add = [&](RoleKind kind, uint32_t count) {
    for (uint32_t index = 0; index < count; ++index) {
      RolePlan role;
      role.role = {kind, index};
      made.roles.push_back(role);
    }
  };
  add(RoleKind::coordinator, 1);
  add(RoleKind::worker, 3);
  add(RoleKind::shard, 4);
  return made;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fuzz::Scratch scratch;
  static const auto job = plan();
  const auto path = scratch.put("plan.toml", fuzz::Input{data, size}.rest());
  fuzz::accepted([&] {
    const auto text = to_toml(read_chaos_plan(path, job), 7);
    const auto copy = scratch.put("copy.toml", text);
    fuzz::holds(to_toml(read_chaos_plan(copy, job), 7) == text,
                "a plan can be written and read");
  });
  return 0;
}
