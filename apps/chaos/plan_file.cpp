#include "apps/chaos/plan_file.hpp"

#include "apps/settings/checks.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/suggestion.hpp"
#include "kernels/files/input_file.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <limits>

namespace troupe {
namespace {

constexpr uint64_t largest_file = uint64_t{1} << 20;
constexpr uint64_t max_steps = uint64_t{1} << 40;
constexpr uint64_t max_amount = 600'000; ///< ten minutes

std::string in_words(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words)
    out += (out.empty() ? "" : ", ") + word;
  return out;
}

/// Takes a plan's tables apart; what is wrong is told with its place.
class Reader {
public:
  Reader(std::string path, const Plan& plan)
    : path_(std::move(path)), plan_(plan) {}

  std::vector<ChaosStrike> read() {
    toml::table table;
    try {
      table = toml::parse(whole_file(path_, largest_file, "a plan of faults"),
                          path_);
    } catch (const toml::parse_error& mistake) {
      const auto at = mistake.source().begin;
      throw UsageError(path_ + ':' + std::to_string(at.line) + ':'
                       + std::to_string(at.column) + ": not valid TOML: "
                       + std::string{mistake.description()});
    }
    know(table, {"strike"});
    std::vector<ChaosStrike> strikes;
    for (const auto* strike : tables(table, "strike"))
      strikes.push_back(read_strike(*strike));
    return strikes;
  }

private:
  [[noreturn]] void refuse(const toml::node& node,
                           const std::string& what) const {
    const auto at = node.source().begin;
    throw UsageError(path_ + ':' + std::to_string(at.line) + ':'
                     + std::to_string(at.column) + ": " + what);
  }

  void know(const toml::table& table,
            const std::vector<std::string>& keys) const {
    for (const auto& [key, node] : table)
      if (std::ranges::find(keys, key.str()) == keys.end()) {
        const auto near = nearest(std::string{key.str()}, keys);
        refuse(node, "unknown key " + std::string{key.str()}
                       + (near.empty() ? "; use " + in_words(keys)
                                       : "; did you mean " + near + "?"));
      }
  }

  /// The tables under [[key]], of which there is one at least.
  std::vector<const toml::table*> tables(const toml::table& table,
                                         const std::string& key) const {
    const auto* list = table.get_as<toml::array>(key);
    if (!list || list->empty())
      refuse(table, "expected [[" + key + "]], at least one");
    std::vector<const toml::table*> out;
    for (const auto& node : *list) {
      if (!node.is_table())
        refuse(node, key + ": expected [[" + key + "]]");
      out.push_back(node.as_table());
    }
    return out;
  }

  std::optional<uint64_t> number(const toml::table& table, const char* key,
                                 uint64_t most) const {
    const auto* node = table.get(key);
    if (!node)
      return std::nullopt;
    const auto value = node->value_exact<int64_t>();
    if (!value || *value < 0 || static_cast<uint64_t>(*value) > most)
      refuse(*node, std::string{key} + ": expected a whole number from 0 to "
                      + std::to_string(most));
    return static_cast<uint64_t>(*value);
  }

  std::string word(const toml::node& node, const char* key) const {
    const auto value = node.value_exact<std::string>();
    if (!value)
      refuse(node, std::string{key} + ": expected a string");
    return *value;
  }

  ChaosStrike read_strike(const toml::table& table) const {
    know(table, {"after_steps", "at_step", "fault"});
    ChaosStrike strike;
    strike.steps_before = number(table, "after_steps", max_steps).value_or(0);
    strike.at_step = number(table, "at_step", max_steps);
    if (strike.at_step && table.contains("after_steps"))
      refuse(table, "after_steps and at_step exclude each other; keep one");
    const auto faults = tables(table, "fault");
    for (const auto* fault : faults) {
      strike.wishes.push_back(read_fault(*fault));
      if (faults.size() > 1 && ends_job(strike.wishes.back().kind))
        refuse(*fault, to_string(strike.wishes.back().kind)
                         + " ends the job; give it a strike of its own");
    }
    return strike;
  }

  ChaosWish read_fault(const toml::table& table) const {
    know(table,
         {"role", "kind", "phase", "phases", "passes", "ms", "link", "cable"});
    ChaosWish wish;
    wish.role = read_role(table);
    if (const auto* kind = table.get("kind");
        kind && !parse(word(*kind, "kind"), wish.kind))
      refuse(*kind, "kind " + word(*kind, "kind") + ": unknown; use "
                      + in_words(names_of_chaos()));
    wish.phases = read_phases(table, wish);
    if (!may_strike(wish.kind, wish.role.kind, wish.phases.front()))
      refuse(table, to_string(wish.kind) + " does not strike "
                      + to_string(wish.role) + " in "
                      + to_string(wish.phases.front()) + where(wish));
    constexpr auto max_passes = std::numeric_limits<uint32_t>::max();
    wish.after =
      static_cast<uint32_t>(number(table, "passes", max_passes).value_or(0));
    wish.amount = read_amount(table, wish.kind);
    const auto cable = number(table, "cable", max_amount);
    if (cable && wish.kind != ChaosKind::host_cut)
      refuse(*table.get("cable"), "cable: which one a host-cut cuts; leave it "
                                  "out of a "
                                    + to_string(wish.kind));
    wish.cable = static_cast<uint32_t>(cable.value_or(0));
    return wish;
  }

  /// Where such a fault may strike, as the end of a refusal.
  static std::string where(const ChaosWish& wish) {
    if (wish.kind == ChaosKind::full_disk || wish.kind == ChaosKind::slow_disk
        || ends_job(wish.kind))
      return "; it strikes the coordinator at-once";
    if (wish.role.kind == RoleKind::coordinator)
      return "; the coordinator may be killed, stopped and have a full disk";
    if (wish.role.kind == RoleKind::reader)
      return "; a reader may be killed and stopped";
    if (may_strike(wish.kind, wish.role.kind, StepPhase::at_once))
      return ", but at-once; leave out its phase";
    return "; it strikes workers in compute";
  }

  RoleId read_role(const toml::table& table) const {
    const auto* node = table.get("role");
    if (!node)
      refuse(table, "a fault needs its role, for example role = \"worker:0\"");
    RoleId role;
    try {
      role = parse_role(word(*node, "role"));
    } catch (const UsageError& mistake) {
      refuse(*node, mistake.what());
    }
    const auto same = [&](const RolePlan& x) { return x.role == role; };
    if (role.kind != RoleKind::coordinator
        && std::ranges::none_of(plan_.roles, same))
      refuse(*node, to_string(role) + " is no role of the job");
    return role;
  }

  StepPhase read_phase(const toml::node& node, const ChaosWish& wish) const {
    const auto name = word(node, "phase");
    auto known = phases_of(wish.role.kind);
    if (has_model_part(wish.role.kind))
      std::erase(known, plan_.served ? StepPhase::reduce : StepPhase::pull);
    const auto phase = step_phase(name);
    if (std::ranges::find(known, phase) == known.end()) {
      std::vector<std::string> names;
      for (auto x : known)
        names.push_back(to_string(x));
      refuse(node, to_string(wish.role) + " has no phase " + name + "; use "
                     + in_words(names));
    }
    return phase;
  }

  std::vector<StepPhase> read_phases(const toml::table& table,
                                     const ChaosWish& wish) const {
    const auto* one = table.get("phase");
    const auto* more = table.get("phases");
    if (one && more)
      refuse(*more, "phase and phases exclude each other; keep one");
    if (one)
      return {read_phase(*one, wish)};
    if (!more)
      return {!may_strike(wish.kind, wish.role.kind, StepPhase::at_once)
                  && may_strike(wish.kind, wish.role.kind, StepPhase::compute)
                ? StepPhase::compute
                : StepPhase::at_once};
    const auto* list = more->as_array();
    if (!list || list->empty())
      refuse(*more, "phases: expected a list of names");
    if (list->size() > 1 && wish.kind != ChaosKind::kill)
      refuse(*more, "phases: only who is killed has a replacement");
    std::vector<StepPhase> phases;
    for (const auto& node : *list)
      phases.push_back(read_phase(node, wish));
    return phases;
  }

  uint32_t read_amount(const toml::table& table, ChaosKind kind) const {
    const auto ms = number(table, "ms", max_amount);
    const auto link = number(table, "link", max_amount);
    if (ms && !lasts(kind))
      refuse(*table.get("ms"), "ms: how long a fault lasts; leave it out of a "
                                 + to_string(kind));
    if (link && kind != ChaosKind::cut)
      refuse(*table.get("link"), "link: which one a cut breaks; leave it out "
                                 "of a "
                                   + to_string(kind));
    if (lasts(kind) && !ms)
      refuse(table, to_string(kind) + " needs to know how long: add ms");
    return static_cast<uint32_t>(ms.value_or(link.value_or(0)));
  }

  std::string path_;
  const Plan& plan_;
};

std::string literal(const std::vector<StepPhase>& phases) {
  std::string out;
  for (auto phase : phases)
    out += (out.empty() ? "\"" : ", \"") + to_string(phase) + '"';
  return '[' + out + ']';
}

} // namespace

std::vector<ChaosStrike> read_chaos_plan(const std::string& path,
                                         const Plan& plan) {
  return Reader{path, plan}.read();
}

std::string to_toml(const std::vector<ChaosStrike>& strikes, uint64_t seed) {
  auto out = "# troupe chaos --plan FILE; as drawn from seed "
             + std::to_string(seed) + '\n';
  for (const auto& strike : strikes) {
    out += "\n[[strike]]\n";
    out += strike.at_step
             ? "at_step = " + std::to_string(*strike.at_step) + '\n'
             : "after_steps = " + std::to_string(strike.steps_before) + '\n';
    for (const auto& wish : strike.wishes) {
      out += "[[strike.fault]]\nrole = \"" + to_string(wish.role)
             + "\"\nkind = \"" + to_string(wish.kind)
             + "\"\nphases = " + literal(wish.phases)
             + "\npasses = " + std::to_string(wish.after) + '\n';
      if (lasts(wish.kind))
        out += "ms = " + std::to_string(wish.amount) + '\n';
      if (wish.kind == ChaosKind::cut)
        out += "link = " + std::to_string(wish.amount) + '\n';
      if (wish.kind == ChaosKind::host_cut)
        out += "cable = " + std::to_string(wish.cable) + '\n';
    }
  }
  return out;
}

} // namespace troupe
