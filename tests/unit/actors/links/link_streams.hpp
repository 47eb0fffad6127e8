#pragma once

#include "tests/unit/actors/links/link_party.hpp"

namespace troupe::test {

/// Each member says something to each other, more than one record of TLS.
inline void check_streams(std::vector<GroupOutcome>& members) {
  auto line = [](size_t from, size_t to) {
    return std::string(40'000, static_cast<char>('a' + from))
           + std::to_string(to);
  };
  for (size_t from = 0; from < members.size(); ++from)
    for (size_t to = 0; to < members.size(); ++to)
      if (from != to)
        send_all(*members[from].sockets[to], line(from, to));
  for (size_t from = 0; from < members.size(); ++from)
    for (size_t to = 0; to < members.size(); ++to)
      if (from != to) {
        const auto expected = line(from, to);
        BOOST_TEST(receive(*members[to].sockets[from], expected.size())
                   == expected);
      }
}

} // namespace troupe::test
