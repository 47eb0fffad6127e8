#include "tests/plugins/stablehlo_interpreter.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace stand_in {

namespace {

using Extents = std::vector<size_t>;

void need(bool holds, const std::string& what) {
  if (!holds)
    throw std::runtime_error(what);
}

// -- reading ------------------------------------------------------------------

Type type_at(const std::string& text, size_t& at) {
  constexpr std::string_view begin = "tensor<";
  need(text.compare(at, begin.size(), begin) == 0, "a tensor's type");
  at += begin.size();
  Type type;
  while (text[at] >= '0' && text[at] <= '9') {
    size_t used = 0;
    type.shape.push_back(std::stoul(text.substr(at), &used));
    at += used;
    need(text.at(at) == 'x', "an x after an extent");
    ++at;
  }
  const auto end = text.find('>', at);
  const auto name = text.substr(at, end - at);
  constexpr std::array names{"f32", "bf16", "i1", "i32", "ui64"};
  const auto found = std::find(names.begin(), names.end(), name);
  need(found != names.end(), "an element type that is known, not " + name);
  type.kind = static_cast<Kind>(found - names.begin());
  at = end + 1;
  return type;
}

Type last_type(const std::string& text) {
  auto at = text.rfind("tensor<");
  need(at != std::string::npos, "a type");
  return type_at(text, at);
}

/// The integers behind a key, up to the bracket that ends the list.
std::vector<int64_t> list_after(const std::string& text, const std::string& key,
                                char end = ']') {
  const auto at = text.find(key);
  if (at == std::string::npos)
    return {};
  const auto first = at + key.size();
  auto part = text.substr(first, text.find(end, first) - first);
  std::replace(part.begin(), part.end(), ',', ' ');
  std::istringstream in{part};
  std::vector<int64_t> out;
  for (int64_t number = 0; in >> number;)
    out.push_back(number);
  need(in.eof(), "a list of numbers after " + key);
  return out;
}

int64_t number_after(const std::string& text, const std::string& key) {
  const auto at = text.find(key);
  need(at != std::string::npos, key);
  return std::stoll(text.substr(at + key.size()));
}

Extents extents(const std::vector<int64_t>& list) {
  return {list.begin(), list.end()};
}

/// Pairs [[a, b], [c, d]] as one list.
std::vector<int64_t> pairs_after(const std::string& text,
                                 const std::string& key) {
  const auto at = text.find(key);
  need(at != std::string::npos, key);
  const auto first = at + key.size();
  auto part = text.substr(first, text.find("]]", first) - first);
  for (auto& c : part)
    if (c == '[' || c == ']' || c == ',')
      c = ' ';
  std::istringstream in{part};
  std::vector<int64_t> out;
  for (int64_t number = 0; in >> number;)
    out.push_back(number);
  return out;
}

// -- index arithmetic ---------------------------------------------------------

Extents strides_of(const Extents& shape) {
  Extents out(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    out[i - 1] = out[i] * shape[i];
  return out;
}

/// Calls body(index, place) for all elements of a shape, in order.
template <class Body>
void for_all(const Extents& shape, const Body& body) {
  const auto count = std::accumulate(shape.begin(), shape.end(), size_t{1},
                                     std::multiplies<>{});
  Extents index(shape.size(), 0);
  for (size_t place = 0; place < count; ++place) {
    body(index, place);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i])
        break;
      index[i] = 0;
    }
  }
}

size_t place_of(const Extents& index, const Extents& strides) {
  size_t out = 0;
  for (size_t i = 0; i < index.size(); ++i)
    out += index[i] * strides[i];
  return out;
}

float to_bfloat16(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  if (!std::isnan(x))
    bits += 0x7fff + ((bits >> 16) & 1);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

double rounded(double x, Kind kind) {
  if (kind == Kind::f32)
    return static_cast<float>(x);
  if (kind == Kind::bf16)
    return to_bfloat16(static_cast<float>(x));
  return x;
}

Value empty(const Type& type) {
  Value out{type, {}, {}};
  if (type.kind == Kind::ui64)
    out.words.resize(type.size());
  else
    out.numbers.resize(type.size());
  return out;
}

/// Moves elements: element `place` of the result comes from `from(index)`.
template <class From>
Value moved(const Type& type, const Value& a, const From& from) {
  auto out = empty(type);
  for_all(type.shape, [&](const Extents& index, size_t place) {
    const auto source = from(index);
    if (type.kind == Kind::ui64)
      out.words[place] = a.words.at(source);
    else
      out.numbers[place] = a.numbers.at(source);
  });
  return out;
}

// -- operations ---------------------------------------------------------------

using Operands = std::vector<const Value*>;

Value constant(const Statement& s) {
  const auto begin = s.text.find("dense<") + 6;
  const auto part = s.text.substr(begin, s.text.find("> :", begin) - begin);
  auto out = empty(s.type);
  if (s.type.kind == Kind::ui64) {
    std::fill(out.words.begin(), out.words.end(), std::stoull(part));
  } else if (part.front() == '[') {
    const auto list = list_after(part, "[");
    need(list.size() == out.numbers.size(), "as many numbers as elements");
    std::copy(list.begin(), list.end(), out.numbers.begin());
  } else if (part.starts_with("\"0x")) {
    need(part.size() == 8 * out.numbers.size() + 4,
         "the bytes of all elements");
    for (size_t i = 0; i < out.numbers.size(); ++i)
      out.numbers[i] =
        std::bit_cast<float>(__builtin_bswap32(static_cast<uint32_t>(
          std::stoul(part.substr(3 + 8 * i, 8), nullptr, 16))));
  } else {
    const bool bits = part.starts_with("0x");
    const double number = bits ? std::bit_cast<float>(static_cast<uint32_t>(
                            std::stoul(part, nullptr, 16)))
                               : std::stof(part);
    std::fill(out.numbers.begin(), out.numbers.end(), number);
  }
  return out;
}

uint64_t of_words(const std::string& op, uint64_t a, uint64_t b) {
  if (op == "add")
    return a + b;
  if (op == "multiply")
    return a * b;
  if (op == "xor")
    return a ^ b;
  need(op == "shift_right_logical", "an operation on words, not " + op);
  return b < 64 ? a >> b : 0;
}

double of_numbers(const std::string& op, double a, double b) {
  if (op == "add")
    return a + b;
  if (op == "subtract")
    return a - b;
  if (op == "multiply")
    return a * b;
  if (op == "divide")
    return a / b;
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  if (op == "maximum")
    return std::max(a, b);
  if (op == "minimum")
    return std::min(a, b);
  need(op == "and", "an operation on numbers, not " + op);
  return a != 0 && b != 0;
}

double of_number(const std::string& op, double a) {
  if (op == "negate")
    return -a;
  if (op == "exponential")
    return std::exp(a);
  if (op == "log")
    return std::log(a);
  if (op == "log_plus_one")
    return std::log1p(a);
  if (op == "tanh")
    return std::tanh(a);
  if (op == "logistic")
    return 1 / (1 + std::exp(-a));
  if (op == "sqrt")
    return std::sqrt(a);
  if (op == "rsqrt")
    return 1 / std::sqrt(a);
  need(op == "abs", "an operation on a number, not " + op);
  return std::abs(a);
}

bool compares(const std::string& how, double a, double b) {
  if (how == "EQ")
    return a == b;
  if (how == "NE")
    return a != b;
  if (how == "LT")
    return a < b;
  if (how == "LE")
    return a <= b;
  if (how == "GT")
    return a > b;
  need(how == "GE", "a comparison, not " + how);
  return a >= b;
}

Value compare(const Statement& s, const Operands& in) {
  const auto how = s.text.substr(s.text.find_first_not_of(' '), 2);
  need(in[0]->type == in[1]->type, "operands of one type");
  auto out = empty(s.type);
  for (size_t i = 0; i < out.numbers.size(); ++i)
    out.numbers[i] = in[0]->type.kind == Kind::ui64
                       ? (need(how == "GE", "GE of words"),
                          in[0]->words[i] >= in[1]->words[i])
                       : compares(how, in[0]->numbers[i], in[1]->numbers[i]);
  return out;
}

Value reduce(const Statement& s, const Operands& in) {
  const auto at = s.text.find("applies stablehlo.") + 18;
  const auto op = s.text.substr(at, s.text.find(' ', at) - at);
  const auto gone = extents(list_after(s.text, "dimensions = ["));
  const auto& a = *in[0];
  Extents kept;
  for (size_t i = 0; i < a.type.shape.size(); ++i)
    if (std::find(gone.begin(), gone.end(), i) == gone.end())
      kept.push_back(i);
  const auto strides = strides_of(s.type.shape);
  need(kept.size() == s.type.shape.size(), "extents that stay");
  auto out = empty(s.type);
  std::fill(out.numbers.begin(), out.numbers.end(), in[1]->numbers.at(0));
  for_all(a.type.shape, [&](const Extents& index, size_t place) {
    size_t to = 0;
    for (size_t i = 0; i < kept.size(); ++i)
      to += index[kept[i]] * strides[i];
    out.numbers.at(to) = of_numbers(op, out.numbers.at(to), a.numbers[place]);
  });
  for (auto& number : out.numbers)
    number = rounded(number, s.type.kind);
  return out;
}

Value dot(const Statement& s, const Operands& in) {
  const auto two = [&](const std::string& key) {
    const auto at = s.text.find(key + " = [");
    if (at == std::string::npos)
      return std::pair{Extents{}, Extents{}};
    const auto rest = s.text.substr(at);
    return std::pair{extents(list_after(rest, "= [")),
                     extents(list_after(rest, "] x ["))};
  };
  const auto batches = two("batching_dims");
  const auto sums = two("contracting_dims");
  const auto& batch_a = batches.first;
  const auto& batch_b = batches.second;
  const auto& sum_a = sums.first;
  const auto& sum_b = sums.second;
  const auto& a = *in[0];
  const auto& b = *in[1];
  const auto left = [](const Value& of, const Extents& batch,
                       const Extents& sum) {
    Extents out;
    for (size_t i = 0; i < of.type.shape.size(); ++i)
      if (std::find(batch.begin(), batch.end(), i) == batch.end()
          && std::find(sum.begin(), sum.end(), i) == sum.end())
        out.push_back(i);
    return out;
  };
  const auto free_a = left(a, batch_a, sum_a);
  const auto free_b = left(b, batch_b, sum_b);
  Extents shape;
  for (auto i : batch_a)
    shape.push_back(a.type.shape[i]);
  for (auto i : free_a)
    shape.push_back(a.type.shape[i]);
  for (auto i : free_b)
    shape.push_back(b.type.shape[i]);
  need(shape == s.type.shape, "the shape of a product");
  Extents summed;
  for (size_t i = 0; i < sum_a.size(); ++i) {
    summed.push_back(a.type.shape[sum_a[i]]);
    need(b.type.shape[sum_b.at(i)] == summed.back(), "extents of a product");
  }
  const auto of_a = strides_of(a.type.shape);
  const auto of_b = strides_of(b.type.shape);
  // Where the elements lie that are summed over, from the first one on.
  std::vector<std::pair<size_t, size_t>> steps;
  for_all(summed, [&](const Extents& index, size_t) {
    size_t x = 0;
    size_t y = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      x += index[i] * of_a[sum_a[i]];
      y += index[i] * of_b[sum_b[i]];
    }
    steps.emplace_back(x, y);
  });
  auto out = empty(s.type);
  for_all(shape, [&](const Extents& index, size_t place) {
    size_t x = 0;
    size_t y = 0;
    size_t at = 0;
    for (size_t i = 0; i < batch_a.size(); ++i, ++at) {
      x += index[at] * of_a[batch_a[i]];
      y += index[at] * of_b[batch_b[i]];
    }
    for (auto i : free_a)
      x += index[at++] * of_a[i];
    for (auto i : free_b)
      y += index[at++] * of_b[i];
    double sum = 0;
    for (const auto& [from_a, from_b] : steps)
      sum += a.numbers[x + from_a] * b.numbers[y + from_b];
    out.numbers[place] = rounded(sum, s.type.kind);
  });
  return out;
}

/// Where the letters of "b, 0, 1, f" stand.
Extents letters(const std::string& text, const std::string& wanted) {
  std::string order;
  for (auto c : text)
    if (c != ' ' && c != ',')
      order += c;
  Extents out;
  for (auto c : wanted) {
    const auto at = order.find(c);
    need(at != std::string::npos, "a place for each letter in " + text);
    out.push_back(at);
  }
  return out;
}

Value convolution(const Statement& s, const Operands& in) {
  const auto first = s.text.find("dim_numbers = [") + 15;
  const auto second = s.text.find("]x[", first);
  const auto third = s.text.find("]->[", second);
  const auto end = s.text.find(']', third + 4);
  const auto input = letters(s.text.substr(first, second - first), "b01f");
  const auto kernel = letters(s.text.substr(second + 3, third - second - 3),
                              "01io");
  const auto result = letters(s.text.substr(third + 4, end - third - 4),
                              "b01f");
  const auto stride = list_after(s.text, "stride = [");
  const auto padding = pairs_after(s.text, "pad = [[");
  const auto base = list_after(s.text, "lhs_dilate = [");
  const auto window = list_after(s.text, "rhs_dilate = [");
  const auto groups =
    static_cast<size_t>(number_after(s.text, "feature_group_count = "));
  const auto batches =
    static_cast<size_t>(number_after(s.text, "batch_group_count = "));
  const auto& x = *in[0];
  const auto& w = *in[1];
  const auto sx = strides_of(x.type.shape);
  const auto sw = strides_of(w.type.shape);
  const auto channels = w.type.shape[kernel[2]];
  const auto units = w.type.shape[kernel[3]];
  need(x.type.shape[input[3]] == channels * groups, "channels of a kernel");
  need(s.type.shape[result[3]] == units, "units of a kernel");
  const auto rows = x.type.shape[input[0]] / batches;
  need(s.type.shape[result[0]] == rows, "rows of a convolution");
  for (size_t i = 0; i < 2; ++i) {
    const auto have = int64_t(x.type.shape[input[1 + i]] - 1) * base[i] + 1
                      + padding[2 * i] + padding[2 * i + 1];
    const auto takes = int64_t(w.type.shape[kernel[i]] - 1) * window[i] + 1;
    need(int64_t(s.type.shape[result[1 + i]]) == (have - takes) / stride[i] + 1,
         "the windows of a convolution");
  }
  auto out = empty(s.type);
  for_all(s.type.shape, [&](const Extents& index, size_t place) {
    const auto unit = index[result[3]];
    const auto group = unit / (units / groups);
    const auto batch = index[result[0]] + rows * (unit / (units / batches));
    double sum = 0;
    for (size_t i = 0; i < w.type.shape[kernel[0]]; ++i)
      for (size_t j = 0; j < w.type.shape[kernel[1]]; ++j) {
        const int64_t at[2] = {int64_t(index[result[1]]) * stride[0]
                                 + int64_t(i) * window[0] - padding[0],
                               int64_t(index[result[2]]) * stride[1]
                                 + int64_t(j) * window[1] - padding[2]};
        if (at[0] < 0 || at[1] < 0 || at[0] % base[0] != 0
            || at[1] % base[1] != 0)
          continue;
        const auto y = size_t(at[0] / base[0]);
        const auto z = size_t(at[1] / base[1]);
        if (y >= x.type.shape[input[1]] || z >= x.type.shape[input[2]])
          continue;
        const auto from = batch * sx[input[0]] + y * sx[input[1]]
                          + z * sx[input[2]] + group * channels * sx[input[3]];
        const auto with = i * sw[kernel[0]] + j * sw[kernel[1]]
                          + unit * sw[kernel[3]];
        for (size_t c = 0; c < channels; ++c)
          sum += x.numbers[from + c * sx[input[3]]]
                 * w.numbers[with + c * sw[kernel[2]]];
      }
    out.numbers[place] = rounded(sum, s.type.kind);
  });
  return out;
}

/// Windows of reduce_window and select_and_scatter.
struct Windows {
  Extents size;
  Extents stride;
  std::vector<int64_t> padding;

  explicit Windows(const std::string& text)
    : size(extents(list_after(text, "window_dimensions = array<i64: ", '>'))),
      stride(extents(list_after(text, "window_strides = array<i64: ", '>'))),
      padding(pairs_after(text, "padding = dense<[[")) {}

  void check(const Extents& image, const Extents& windows) const {
    for (size_t i = 0; i < image.size(); ++i)
      need(int64_t(windows[i])
             == (int64_t(image[i]) + padding[2 * i] + padding[2 * i + 1]
                 - int64_t(size[i]))
                    / int64_t(stride[i])
                  + 1,
           "the number of windows");
  }

  /// Calls body(place in the image) for what of a window lies in it.
  template <class Body>
  void
  inside(const Extents& index, const Extents& image, const Body& body) const {
    const auto strides = strides_of(image);
    for_all(size, [&](const Extents& offset, size_t) {
      size_t place = 0;
      for (size_t i = 0; i < image.size(); ++i) {
        const auto at = int64_t(index[i] * stride[i] + offset[i])
                        - padding[2 * i];
        if (at < 0 || at >= int64_t(image[i]))
          return;
        place += size_t(at) * strides[i];
      }
      body(place);
    });
  }
};

std::string region_op(const std::string& text, size_t from = 0) {
  const auto at = text.find("%c = stablehlo.", from) + 15;
  return text.substr(at, text.find(' ', at) - at);
}

Value reduce_window(const Statement& s, const Operands& in) {
  const Windows windows{s.text};
  const auto op = region_op(s.text);
  const auto& a = *in[0];
  windows.check(a.type.shape, s.type.shape);
  auto out = empty(s.type);
  for_all(s.type.shape, [&](const Extents& index, size_t place) {
    auto sum = in[1]->numbers.at(0);
    windows.inside(index, a.type.shape, [&](size_t at) {
      sum = of_numbers(op, sum, a.numbers[at]);
    });
    out.numbers[place] = rounded(sum, s.type.kind);
  });
  return out;
}

Value select_and_scatter(const Statement& s, const Operands& in) {
  const Windows windows{s.text};
  need(region_op(s.text) == "compare", "a comparison that selects");
  const auto& a = *in[0];
  const auto& values = *in[1];
  need(a.type == s.type, "what is scattered to");
  windows.check(a.type.shape, values.type.shape);
  auto out = empty(s.type);
  for_all(values.type.shape, [&](const Extents& index, size_t place) {
    auto best = a.numbers.size();
    windows.inside(index, a.type.shape, [&](size_t at) {
      if (best == a.numbers.size() || !(a.numbers[best] >= a.numbers[at]))
        best = at;
    });
    out.numbers.at(best) = rounded(out.numbers.at(best) + values.numbers[place],
                                   s.type.kind);
  });
  return out;
}

/// Both that are written: rows of a table, or columns of [rows, n].
Value gather(const Statement& s, const Operands& in) {
  const auto& a = *in[0];
  const auto& ids = *in[1];
  const auto offset = list_after(s.text, "offset_dims = [");
  const auto collapsed = list_after(s.text, "collapsed_slice_dims = [");
  const auto sizes = list_after(s.text, "slice_sizes = array<i64: ", '>');
  need(number_after(s.text, "index_vector_dim = ")
         == int64_t(ids.type.shape.size()),
       "indices of one number");
  const auto named = size_t(collapsed.at(0));
  need(offset.size() == 1 && sizes.at(named) == 1
         && sizes.at(1 - named) == int64_t(a.type.shape[1 - named]),
       "whole rows or columns");
  const auto strides = strides_of(ids.type.shape);
  const auto last = int64_t(a.type.shape[named]) - 1;
  return moved(s.type, a, [&](const Extents& index) {
    auto outer = index;
    outer.erase(outer.begin() + offset[0]);
    const auto id = std::clamp(int64_t(ids.numbers[place_of(outer, strides)]),
                               int64_t{0}, last);
    const auto other = index[size_t(offset[0])];
    return named == 0 ? size_t(id) * a.type.shape[1] + other
                      : other * a.type.shape[1] + size_t(id);
  });
}

Value scatter(const Statement& s, const Operands& in) {
  need(region_op(s.text) == "add", "a scatter that adds");
  const auto& ids = *in[1];
  const auto& rows = *in[2];
  const auto width = s.type.shape.at(1);
  need(list_after(s.text, "update_window_dims = [")
           == std::vector<int64_t>{int64_t(ids.type.shape.size())}
         && rows.numbers.size() == ids.numbers.size() * width,
       "rows to add");
  auto out = *in[0];
  for (size_t i = 0; i < ids.numbers.size(); ++i) {
    const auto id = int64_t(ids.numbers[i]);
    if (id < 0 || id >= int64_t(s.type.shape[0]))
      continue;
    for (size_t k = 0; k < width; ++k) {
      auto& to = out.numbers[size_t(id) * width + k];
      to = rounded(to + rows.numbers[i * width + k], s.type.kind);
    }
  }
  return out;
}

Value pad(const Statement& s, const Operands& in) {
  const auto low = list_after(s.text, "low = [");
  const auto high = list_after(s.text, "high = [");
  const auto between = list_after(s.text, "interior = [");
  const auto& a = *in[0];
  auto out = empty(s.type);
  std::fill(out.numbers.begin(), out.numbers.end(), in[1]->numbers.at(0));
  for (size_t i = 0; i < low.size(); ++i)
    need(int64_t(s.type.shape[i])
           == int64_t(a.type.shape[i])
                + int64_t(a.type.shape[i] - 1) * between[i] + low[i] + high[i],
         "the extents of what is padded");
  const auto strides = strides_of(s.type.shape);
  for_all(a.type.shape, [&](const Extents& index, size_t place) {
    size_t to = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      const auto at = low[i] + int64_t(index[i]) * (between[i] + 1);
      if (at < 0 || at >= int64_t(s.type.shape[i]))
        return;
      to += size_t(at) * strides[i];
    }
    out.numbers[to] = a.numbers[place];
  });
  return out;
}

Value slice(const Statement& s, const Operands& in) {
  const auto first = s.text.find('[') + 1;
  auto part = s.text.substr(first, s.text.find(']', first) - first);
  std::replace(part.begin(), part.end(), ':', ' ');
  std::replace(part.begin(), part.end(), ',', ' ');
  const auto bounds = list_after("[" + part, "[", '\0');
  const auto strides = strides_of(in[0]->type.shape);
  for (size_t i = 0; i < s.type.shape.size(); ++i)
    need(bounds.at(2 * i + 1) - bounds[2 * i] == int64_t(s.type.shape[i])
           && bounds[2 * i + 1] <= int64_t(in[0]->type.shape[i]),
         "the bounds of a slice");
  return moved(s.type, *in[0], [&](const Extents& index) {
    size_t place = 0;
    for (size_t i = 0; i < index.size(); ++i)
      place += (index[i] + size_t(bounds[2 * i])) * strides[i];
    return place;
  });
}

Value concatenate(const Statement& s, const Operands& in) {
  const auto extent = size_t(number_after(s.text, "dim = "));
  auto out = empty(s.type);
  const auto strides = strides_of(s.type.shape);
  size_t begin = 0;
  for (const auto* part : in) {
    for_all(part->type.shape, [&](const Extents& index, size_t place) {
      auto to = index;
      to[extent] += begin;
      out.numbers.at(place_of(to, strides)) = part->numbers[place];
    });
    begin += part->type.shape[extent];
  }
  need(begin == s.type.shape[extent], "the extent of what is put together");
  return out;
}

Value move(const Statement& s, const Operands& in) {
  const auto& a = *in[0];
  const auto strides = strides_of(a.type.shape);
  const auto dims = extents(list_after(s.text, "dims = ["));
  if (s.op == "broadcast_in_dim")
    return moved(s.type, a, [&](const Extents& index) {
      size_t place = 0;
      for (size_t i = 0; i < dims.size(); ++i)
        place += (a.type.shape[i] == 1 ? 0 : index.at(dims[i])) * strides[i];
      return place;
    });
  if (s.op == "transpose")
    return moved(s.type, a, [&](const Extents& index) {
      size_t place = 0;
      for (size_t i = 0; i < dims.size(); ++i)
        place += index[i] * strides[dims[i]];
      return place;
    });
  need(s.op == "reverse", "a movement, not " + s.op);
  return moved(s.type, a, [&](Extents index) {
    for (auto i : dims)
      index[i] = a.type.shape[i] - 1 - index[i];
    return place_of(index, strides);
  });
}

Value iota(const Statement& s) {
  const auto extent = size_t(number_after(s.text, "dim = "));
  auto out = empty(s.type);
  for_all(s.type.shape, [&](const Extents& index, size_t place) {
    if (s.type.kind == Kind::ui64)
      out.words[place] = index[extent];
    else
      out.numbers[place] = static_cast<double>(index[extent]);
  });
  return out;
}

Value element_by_element(const Statement& s, const Operands& in) {
  auto out = empty(s.type);
  for (const auto* operand : in)
    need(operand->type.shape == s.type.shape, "operands of one shape");
  for (size_t i = 0; i < out.words.size(); ++i)
    out.words[i] = of_words(s.op, in[0]->words[i], in[1]->words.at(i));
  for (size_t i = 0; i < out.numbers.size(); ++i)
    out.numbers[i] =
      rounded(in.size() == 1
                ? of_number(s.op, in[0]->numbers[i])
                : of_numbers(s.op, in[0]->numbers[i], in[1]->numbers.at(i)),
              s.type.kind);
  return out;
}

/// a - b * c, rounded once, as compilers for processors and TPUs make it: so
/// what a device updates has other bits than what the host does.
Value minus_product(const Statement& s, const Operands& in,
                    const Operands& factors) {
  auto out = empty(s.type);
  for (size_t i = 0; i < out.numbers.size(); ++i)
    out.numbers[i] =
      rounded(std::fma(-factors[0]->numbers.at(i), factors[1]->numbers.at(i),
                       in[0]->numbers.at(i)),
              s.type.kind);
  return out;
}

Value is_finite(const Statement& s, const Operands& in) {
  auto out = empty(s.type);
  need(in[0]->type.shape == s.type.shape, "an operand of the same shape");
  for (size_t i = 0; i < out.numbers.size(); ++i)
    out.numbers[i] = std::isfinite(in[0]->numbers[i]);
  return out;
}

Value select(const Statement& s, const Operands& in) {
  auto out = empty(s.type);
  need(in[0]->type.shape == s.type.shape && in[1]->type == in[2]->type,
       "operands of a selection");
  for (size_t i = 0; i < out.numbers.size(); ++i)
    out.numbers[i] = in[in[0]->numbers[i] != 0 ? 1 : 2]->numbers[i];
  return out;
}

Value reshaped(const Statement& s, const Operands& in) {
  need(in[0]->type.size() == s.type.size(), "as many elements");
  auto out = *in[0];
  out.type = s.type;
  return out;
}

Value converted(const Statement& s, const Operands& in) {
  auto out = *in[0];
  out.type = s.type;
  for (auto& number : out.numbers)
    number = rounded(number, s.type.kind);
  return out;
}

Value done(const Statement& s, const Operands& in) {
  using Operation = Value (*)(const Statement&, const Operands&);
  static const std::map<std::string, Operation> operations{
    {"compare", compare},
    {"is_finite", is_finite},
    {"select", select},
    {"convert", converted},
    {"reshape", reshaped},
    {"transpose", move},
    {"reverse", move},
    {"broadcast_in_dim", move},
    {"slice", slice},
    {"concatenate", concatenate},
    {"pad", pad},
    {"reduce", reduce},
    {"reduce_window", reduce_window},
    {"select_and_scatter", select_and_scatter},
    {"dot_general", dot},
    {"convolution", convolution},
    {"gather", gather},
    {"scatter", scatter},
  };
  if (s.op == "constant")
    return constant(s);
  if (s.op == "iota")
    return iota(s);
  const auto found = operations.find(s.op);
  return found != operations.end() ? found->second(s, in)
                                   : element_by_element(s, in);
}

// -- several replicas ---------------------------------------------------------

/// All of them as one group, in their order.
void check_group(const Statement& s, size_t replicas) {
  const auto group = list_after(s.text, "replica_groups = dense<[[");
  std::vector<int64_t> all(replicas);
  std::iota(all.begin(), all.end(), 0);
  need(group == all
         && s.text.find("]]> : tensor<1x" + std::to_string(replicas) + "xi64>")
              != std::string::npos,
       "one group of all replicas");
}

std::vector<Value> all_to_all(const Statement& s,
                              const std::vector<Operands>& in) {
  const auto replicas = in.size();
  for (const auto* key : {"split_dimension = ", "concat_dimension = "})
    need(number_after(s.text, key) == 0, "parts of the first extent");
  need(number_after(s.text, "split_count = ") == static_cast<int64_t>(replicas)
         && s.type.shape.at(0) == replicas,
       "a part for each replica");
  const auto part = s.type.size() / replicas;
  std::vector<Value> out(replicas, empty(s.type));
  for (size_t to = 0; to < replicas; ++to)
    for (size_t from = 0; from < replicas; ++from) {
      const auto& source = *in[from][0];
      need(source.type == s.type, "an operand of the same type");
      std::copy_n(source.numbers.begin() + static_cast<long>(to * part), part,
                  out[to].numbers.begin() + static_cast<long>(from * part));
    }
  return out;
}

std::vector<Value> all_gather(const Statement& s,
                              const std::vector<Operands>& in) {
  need(number_after(s.text, "all_gather_dim = ") == 0
         && s.type.shape.size() == 1,
       "elements that follow one another");
  auto all = empty(s.type);
  all.numbers.clear();
  for (const auto& operands : in)
    all.numbers.insert(all.numbers.end(), operands[0]->numbers.begin(),
                       operands[0]->numbers.end());
  need(all.numbers.size() == s.type.size(), "as many elements as all have");
  return std::vector<Value>(in.size(), all);
}

std::vector<Value> all_reduce(const Statement& s,
                              const std::vector<Operands>& in) {
  need(s.text.find("stablehlo.add %a, %b") != std::string::npos, "a sum");
  auto sum = *in.back()[0]; // an order that is not the fixed tree's
  need(sum.type == s.type, "an operand of the same type");
  for (size_t i = in.size() - 1; i-- > 0;)
    for (size_t k = 0; k < sum.numbers.size(); ++k)
      sum.numbers[k] = rounded(sum.numbers[k] + in[i][0]->numbers.at(k),
                               s.type.kind);
  return std::vector<Value>(in.size(), sum);
}

std::vector<Value> done_together(const Statement& s,
                                 const std::vector<Operands>& in) {
  using Operation = std::vector<Value> (*)(const Statement&,
                                           const std::vector<Operands>&);
  static const std::map<std::string, Operation> operations{
    {"all_to_all", all_to_all},
    {"all_gather", all_gather},
    {"all_reduce", all_reduce},
  };
  if (const auto found = operations.find(s.op); found != operations.end()) {
    check_group(s, in.size());
    return found->second(s, in);
  }
  std::vector<Value> out;
  for (const auto& operands : in)
    out.push_back(done(s, operands));
  return out;
}

std::vector<uint32_t> names_in(const std::string& text) {
  std::vector<uint32_t> out;
  for (size_t at = 0; (at = text.find('%', at)) != std::string::npos; ++at)
    if (text[at + 1] >= '0' && text[at + 1] <= '9')
      out.push_back(static_cast<uint32_t>(std::stoul(text.substr(at + 1))));
  return out;
}

Statement statement_of(const std::string& text) {
  Statement s;
  const auto equals = text.find(" = ");
  s.result = names_in(text.substr(0, equals)).at(0);
  const auto begin = text.find("stablehlo.", equals) + 10;
  const auto end = text.find_first_of(" (\"", begin);
  s.op = text.substr(begin, end - begin);
  s.text = text.substr(end);
  s.operands = names_in(s.text);
  s.type = last_type(s.text);
  return s;
}

} // namespace

size_t Type::size() const {
  return std::accumulate(shape.begin(), shape.end(), size_t{1},
                         std::multiplies<>{});
}

Interpreter::Interpreter(const std::string& text) {
  std::istringstream in{text};
  std::string line;
  std::string statement;
  const auto finish = [&] {
    if (!statement.empty())
      statements_.push_back(statement_of(statement));
    statement.clear();
  };
  bool inside = false;
  while (std::getline(in, line)) {
    if (line.find("func.func public @main(") != std::string::npos) {
      inside = true;
      const auto arguments = line.substr(0, line.find(") -> ("));
      for (size_t at = 0;
           (at = arguments.find(": tensor<", at)) != std::string::npos;) {
        at += 2;
        arguments_.push_back(type_at(arguments, at));
        constexpr std::string_view gives = " {tf.aliasing_output = ";
        donated_.push_back(arguments.compare(at, gives.size(), gives) == 0
                             ? std::stoi(arguments.substr(at + gives.size()))
                             : -1);
      }
      argument_names_ = names_in(arguments);
      need(argument_names_.size() == arguments_.size(), "named arguments");
    } else if (inside && line.starts_with("    return ")) {
      finish();
      results_ = names_in(line);
      for (size_t at = 0; (at = line.find("tensor<", at)) != std::string::npos;)
        result_types_.push_back(type_at(line, at));
      return;
    } else if (inside && line.starts_with("    %")) {
      finish();
      statement = line;
    } else if (inside) {
      statement += '\n' + line;
    }
  }
  need(false, "a function main that returns");
}

/// Whose result is what the statement takes away; null: it does not.
const Statement* Interpreter::subtracted_product(const Statement& s) const {
  if (s.op != "subtract" || s.type.kind != Kind::f32)
    return nullptr;
  const auto maker = std::ranges::find(statements_, s.operands.at(1),
                                       &Statement::result);
  return maker != statements_.end() && maker->op == "multiply" ? &*maker
                                                               : nullptr;
}

std::vector<std::vector<Value>>
Interpreter::run(const std::vector<Arguments>& arguments) const {
  const auto replicas = arguments.size();
  std::vector<std::map<uint32_t, Value>> values(replicas);
  for (size_t replica = 0; replica < replicas; ++replica) {
    const auto& given = arguments[replica];
    need(given.size() == arguments_.size(), "as many arguments");
    for (size_t i = 0; i < given.size(); ++i) {
      need(given[i]->type == arguments_[i], "an argument's type");
      values[replica][argument_names_[i]] = *given[i];
    }
  }
  for (const auto& statement : statements_) {
    std::vector<Operands> operands(replicas);
    for (size_t replica = 0; replica < replicas; ++replica)
      for (auto name : statement.operands)
        operands[replica].push_back(&values[replica].at(name));
    auto results = done_together(statement, operands);
    if (const auto* product = subtracted_product(statement))
      for (size_t replica = 0; replica < replicas; ++replica)
        results[replica] =
          minus_product(statement, operands[replica],
                        {&values[replica].at(product->operands[0]),
                         &values[replica].at(product->operands[1])});
    for (size_t replica = 0; replica < replicas; ++replica) {
      auto& known = values[replica];
      need(results[replica].type == statement.type
             && !known.contains(statement.result),
           "a value of its type, assigned once");
      known[statement.result] = std::move(results[replica]);
    }
  }
  std::vector<std::vector<Value>> out(replicas);
  for (size_t replica = 0; replica < replicas; ++replica)
    for (size_t i = 0; i < results_.size(); ++i) {
      out[replica].push_back(values[replica].at(results_[i]));
      need(out[replica].back().type == result_types_.at(i), "a result's type");
    }
  return out;
}

} // namespace stand_in
