#pragma once

#include "actors/wire/caf.hpp"

#include <string>

namespace troupe {

/// The reasons of CAF's own that an actor may end or a request may fail with,
/// in words for people; empty: none is known.
inline std::string words_of(const caf::error& why) {
  using caf::exit_reason;
  using caf::sec;
  if (why == sec::request_timeout)
    return "no answer in time";
  if (why == sec::request_receiver_down || why == sec::broken_promise)
    return "who was asked has ended";
  if (why == sec::cannot_connect_to_node || why == sec::connection_timeout)
    return "it cannot be connected to";
  if (why == sec::remote_lookup_failed || why == sec::no_such_key)
    return "nobody of that name is there";
  if (why == exit_reason::remote_link_unreachable
      || why == sec::disconnect_during_handshake || why == sec::end_of_stream
      || why == sec::socket_disconnected)
    return "the connection has ended";
  if (why == exit_reason::kill || why == exit_reason::user_shutdown)
    return "it was told to end";
  return {};
}

/// The line that an actor's refusal was made with; where it was made without,
/// what CAF's reason means. An error that is none has no line to be asked for.
inline std::string line_of(const caf::error& why) {
  if (!why)
    return "it has ended";
  if (auto line =
        caf::make_const_typed_message_view<std::string>(why.context()))
    return caf::get<0>(line);
  const auto words = words_of(why);
  return words.empty() ? "it failed inside, reason "
                           + std::to_string(static_cast<int>(why.code()))
                       : words;
}

/// The reason of an actor that ends for what it was given to read: it would
/// most likely end so again.
inline caf::error bad_input(const std::string& line) {
  return caf::make_error(caf::sec::cannot_open_file, line);
}
inline bool is_bad_input(const caf::error& why) {
  return why == caf::sec::cannot_open_file;
}

/// Whether who was asked has gone, or knows that another one answers by now:
/// then that one is to be asked. An actor that ends breaks the promises that it
/// has not kept.
inline bool asked_is_gone(const caf::error& why) {
  return why == caf::sec::request_receiver_down
         || why == caf::sec::broken_promise;
}

} // namespace troupe
