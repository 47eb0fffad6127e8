#include "strategies/send_queue.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(send_queue)

namespace {

using Queue = SendQueue<std::string>;

std::string all_of(Queue& queue) {
  std::string out;
  for (; !queue.empty(); queue.pop())
    out += queue.front();
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(smaller_ranks_go_first) {
  Queue queue{100};
  queue.put("c", 1, 3);
  queue.put("b", 1, 2);
  queue.put("d", 1, 4);
  queue.put("a", 1, 1);
  BOOST_TEST(queue.bytes() == 4u);
  BOOST_TEST(all_of(queue) == "abcd");
  BOOST_TEST(queue.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(messages_of_one_rank_stay_in_order) {
  Queue queue{100};
  queue.put("x", 1, 1);
  queue.put("1", 1, 7);
  queue.put("2", 1, 7);
  queue.put("y", 1, 1);
  queue.put("3", 1, 7);
  BOOST_TEST(all_of(queue) == "xy123");
}

BOOST_AUTO_TEST_CASE(nobody_passes_what_has_no_rank_nor_does_it_pass_anybody) {
  Queue queue{100};
  queue.put("b", 1, 2);
  queue.put("|", 1, std::nullopt);
  queue.put("d", 1, 2);
  queue.put("c", 1, 1);
  BOOST_TEST(all_of(queue) == "b|cd");
}

BOOST_AUTO_TEST_CASE(without_ranks_all_stay_in_order) {
  Queue queue{100};
  for (const auto* x : {"d", "a", "c", "b"})
    queue.put(x, 1, std::nullopt);
  BOOST_TEST(all_of(queue) == "dacb");
}

BOOST_AUTO_TEST_CASE(a_message_is_passed_by_so_many_bytes_and_no_more) {
  Queue queue{100};
  queue.put("last", 10, 9);
  for (int i = 0; i < 5; ++i) {
    queue.put("30 ", 30, 1); // the fourth does not pass any more
  }
  BOOST_TEST(all_of(queue) == "30 30 30 last30 30 ");
}

// Whatever is put and taken: see SendQueue.
BOOST_AUTO_TEST_CASE(the_bound_and_the_order_hold_in_any_sequence) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    struct Message {
      uint32_t number;
      uint32_t rank; ///< 9: none
      uint64_t bytes;
    };
    SendQueue<Message> queue{50};
    std::map<uint32_t, Message> waiting;
    std::map<uint32_t, uint64_t> passed;
    uint32_t put = 0;
    for (int i = 0; i < 300; ++i) {
      if (random() % 5 < 3) {
        const auto rank = static_cast<uint32_t>(random() % 10);
        const Message next{put++, rank, 1 + random() % 20};
        waiting[next.number] = next;
        queue.put(next, next.bytes,
                  next.rank == 9 ? std::nullopt : std::optional{next.rank});
      } else if (!queue.empty()) {
        const auto next = queue.front();
        BOOST_TEST(queue.front_bytes() == next.bytes);
        queue.pop();
        waiting.erase(next.number);
        for (const auto& [number, older] : waiting) {
          if (number >= next.number)
            continue;
          BOOST_TEST(next.rank < older.rank); // it has passed that
          BOOST_TEST(older.rank != 9u);
          passed[number] += next.bytes;
          BOOST_TEST(passed[number] <= 50u);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
