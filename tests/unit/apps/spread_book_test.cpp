#include "apps/tensorboard/spread_book.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(spread_book)

namespace {

/// Two parameters of which each is as large as is said.
Graph graph_of(uint64_t first, uint64_t second) {
  Graph graph;
  for (const auto& [name, size] : {std::pair{"a", first}, {"b", second}}) {
    Parameter parameter;
    parameter.name = name;
    parameter.shape = {size};
    graph.parameters.push_back(parameter);
  }
  return graph;
}

Spreads part(uint64_t step, uint32_t variable, uint64_t begin,
             uint64_t elements) {
  const std::vector<float> values(elements, static_cast<float>(step));
  Spreads out{1, step, variable, begin, elements, {}, {}};
  out.values = spread_of(values.data(), elements);
  out.gradient = spread_of(values.data(), elements, 2);
  return out;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_parameter_is_whole_once_each_element_was_told_of) {
  SpreadBook book{graph_of(10, 5)};
  BOOST_TEST(!book.add(part(1, 0, 0, 4)));
  BOOST_TEST(!book.add(part(1, 0, 0, 4))); // by somebody else
  BOOST_TEST(!book.add(part(1, 0, 3, 2))); // cut elsewhere
  BOOST_TEST(!book.add(part(1, 0, 7, 3)));
  const auto other = book.add(part(1, 1, 0, 5));
  BOOST_REQUIRE(other.has_value());
  BOOST_TEST(other->name == "b");
  const auto whole = book.add(part(1, 0, 4, 3));
  BOOST_REQUIRE(whole.has_value());
  BOOST_TEST(whole->name == "a");
  BOOST_TEST(whole->step == 1u);
  BOOST_TEST(whole->values.count == 10u);
  BOOST_TEST(whole->values.sum == 10);
  BOOST_TEST(whole->gradient.sum == 20);
  BOOST_TEST(!book.add(part(1, 0, 0, 10))); // it was made again
}

BOOST_AUTO_TEST_CASE(a_step_that_stays_incomplete_is_let_go_of) {
  SpreadBook book{graph_of(10, 5)};
  BOOST_TEST(!book.add(part(1, 0, 0, 4)));
  BOOST_TEST(book.add(part(2, 0, 0, 10)).has_value());
  BOOST_TEST(!book.add(part(1, 0, 4, 6)));
  for (uint64_t step = 3; step < 20; ++step)
    BOOST_TEST(!book.add(part(step, 0, 0, 4)));
  BOOST_TEST(!book.add(part(3, 0, 4, 6))); // the rest alone
  BOOST_TEST(book.add(part(19, 0, 4, 6)).has_value());
}

BOOST_AUTO_TEST_CASE(what_no_parameter_has_is_passed_over) {
  SpreadBook book{graph_of(10, 5)};
  BOOST_TEST(!book.add(part(1, 2, 0, 1)));
  BOOST_TEST(!book.add(part(1, 1, 0, 6)));
  BOOST_TEST(!book.add(part(1, 1, 6, 1)));
  BOOST_TEST(!book.add(part(1, 1, 5, 0)));
  Spreads far{1, 1, 1, 4, ~uint64_t{0}, {}, {}};
  BOOST_TEST(!book.add(far));
}

BOOST_AUTO_TEST_SUITE_END()
