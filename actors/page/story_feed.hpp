#pragma once

#include "actors/page/page_feed.hpp"
#include "actors/page/run_story.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace troupe {

/// Keeps what a coordinator tells of its run, for its page and its summary. Any
/// thread. Owner: a shared pointer.
class StoryFeed : public PageFeed,
                  public std::enable_shared_from_this<StoryFeed> {
public:
  void add_line(const std::string& line) override;
  void add_point(const PagePoint& point) override;
  void set_members(std::vector<PageMember> members) override;
  std::shared_ptr<JournalSink> shown(std::shared_ptr<JournalSink> own) override;
  void tell_whole(uint64_t begin_ms,
                  nlohmann::ordered_json& out) const override;

  /// Also one of an earlier coordinator.
  void add_event(const JournalEvent& event);
  std::vector<PageMember> members() const;
  /// Has `see` look at the story, which waits meanwhile.
  template <class See>
  void read(See see) const {
    const std::lock_guard guard{mutex_};
    see(story_);
  }

private:
  class Journal;

  mutable std::mutex mutex_;
  RunStory story_;                  // under the mutex
  std::vector<PageMember> members_; // the same
};

} // namespace troupe
