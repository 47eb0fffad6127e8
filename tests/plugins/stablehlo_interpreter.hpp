#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

/// Reads the part of StableHLO's text that kernels/stablehlo/ writes, and does
/// what it says in plain loops: what a PJRT plugin's compiler does, for tests
/// without one. Nothing is taken from the writer: shapes are worked out anew
/// from the text, and what does not fit is an exception.
namespace stand_in {

enum class Kind : uint8_t { f32, bf16, i1, i32, ui64 };

struct Type {
  std::vector<size_t> shape;
  Kind kind = Kind::f32;

  size_t size() const;
  bool operator==(const Type&) const = default;
};

/// Numbers of all kinds but ui64 are doubles, rounded to their kind.
struct Value {
  Type type;
  std::vector<double> numbers;
  std::vector<uint64_t> words;
};

/// One operation of a program.
struct Statement {
  uint32_t result = 0;
  std::string op; ///< "add"
  std::vector<uint32_t> operands;
  Type type;        ///< of the result
  std::string text; ///< of all attributes
};

class Interpreter {
public:
  /// Errors: std::runtime_error for text that is not understood.
  explicit Interpreter(const std::string& text);

  const std::vector<Type>& arguments() const { return arguments_; }
  /// Which result an argument's memory is given to; -1: none.
  const std::vector<int>& donated() const { return donated_; }
  size_t results() const { return results_.size(); }
  using Arguments = std::vector<const Value*>;
  /// What each replica makes of its arguments; they go on statement by
  /// statement, and exchange values in those that say so.
  /// Errors: std::runtime_error for operands or shapes that do not fit.
  std::vector<std::vector<Value>>
  run(const std::vector<Arguments>& arguments) const;

private:
  const Statement* subtracted_product(const Statement& s) const;

  std::vector<Type> arguments_;
  std::vector<int> donated_;
  std::vector<uint32_t> argument_names_;
  std::vector<Statement> statements_;
  std::vector<uint32_t> results_;
  std::vector<Type> result_types_;
};

} // namespace stand_in
