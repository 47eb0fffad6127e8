#pragma once

#include "actors/links/link_node.hpp"
#include "actors/wire/messages.hpp"

#include <functional>
#include <mutex>
#include <vector>

namespace troupe {

/// What a process's lines to the coordinator try links with: its node, which
/// is made later than they and ends before them. From any thread.
class LinkTrials {
public:
  /// Null: there is none any more.
  void use(LinkNode* node);
  /// Tries whether links of that role to others carry what links carry.
  /// Completion: reached(whether all do) once, from any thread, in 2 s at most.
  void run(RoleId role, const std::vector<LinkedRole>& others,
           std::function<void(bool all)> reached);

private:
  std::mutex mutex_;
  LinkNode* node_ = nullptr;
};

} // namespace troupe
