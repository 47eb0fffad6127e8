#include "actors/page/story_feed.hpp"

#include "actors/journal/event_sentence.hpp"
#include "actors/journal/job_journal.hpp"

#include <nlohmann/json.hpp>

#include <exception>
#include <utility>

namespace troupe {

/// Hands events on and shows them.
class StoryFeed::Journal : public JournalSink {
public:
  Journal(std::shared_ptr<StoryFeed> feed, std::shared_ptr<JournalSink> own)
    : feed_(std::move(feed)), own_(std::move(own)) {}

  void append(JournalEvent event, std::function<void()> synced) override {
    feed_->add_event(event);
    if (own_)
      own_->append(std::move(event), std::move(synced));
    else if (synced)
      synced();
  }
  bool leads() const override { return !own_ || own_->leads(); }

private:
  std::shared_ptr<StoryFeed> feed_;
  std::shared_ptr<JournalSink> own_;
};

void StoryFeed::add_line(const std::string& line) {
  const std::lock_guard guard{mutex_};
  story_.add_line(unix_ms(), line);
}

void StoryFeed::add_point(const PagePoint& point) {
  const std::lock_guard guard{mutex_};
  story_.add(point);
}

void StoryFeed::set_members(std::vector<PageMember> members) {
  const std::lock_guard guard{mutex_};
  members_ = std::move(members);
}

std::shared_ptr<JournalSink>
StoryFeed::shown(std::shared_ptr<JournalSink> own) {
  return std::make_shared<Journal>(shared_from_this(), std::move(own));
}

void StoryFeed::tell_whole(uint64_t begin_ms,
                           nlohmann::ordered_json& out) const {
  read([&](const RunStory& story) { story.tell_whole(begin_ms, out); });
}

std::vector<PageMember> StoryFeed::members() const {
  const std::lock_guard guard{mutex_};
  return members_;
}

void StoryFeed::add_event(const JournalEvent& event) {
  if (event.kind == "commits") // the curves have them
    return;
  std::string text;
  try {
    text = event_sentence(event.kind, EventBody::parse(event.body));
  } catch (const std::exception&) {
    text = event.body;
  }
  const std::lock_guard guard{mutex_};
  story_.add_event(event.unix_ms, event.kind, text);
}

} // namespace troupe
