#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// What stands in a field of which nothing is known.
class MissingTexts {
public:
  static constexpr std::string_view usual =
    "NA,N/A,n/a,#N/A,NaN,nan,NULL,null,None,?";

  /// An empty field, and the usual ones.
  MissingTexts() : MissingTexts(usual) {}
  /// An empty field, and the texts that commas separate here.
  explicit MissingTexts(std::string_view list);

  /// Of a text without spaces around it.
  bool has(std::string_view text) const {
    return text.empty()
           || (first_[static_cast<unsigned char>(text[0])] && listed(text));
  }

private:
  bool listed(std::string_view text) const;
  void add(std::string_view text);

  std::vector<std::string> texts_;
  std::bitset<256> first_; ///< what a text may begin with
};

} // namespace troupe
