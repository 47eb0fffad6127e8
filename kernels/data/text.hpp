#pragma once

#include "kernels/data/dataset.hpp"
#include "kernels/tokens/tokenizer.hpp"

namespace troupe {

// text:FILE, plain or .gz. Keys: level=char|byte, tokenizer=FILE.
// char: UTF-8; the vocabulary is the sorted characters (code points) that occur
// in the training part, which are kept with weights. byte: 256 ids. With a
// tokenizer, which is kept with weights too: the tokens of each file's text.

void check_text(const DataSpec& spec);

/// Reads code points, bytes or tokens.
/// Errors: InputError with file and byte (no UTF-8, more than 2^31 - 1
/// characters, an empty file); with a tokenizer: as Tokenizer, when
/// many characters have no token, and where weights know another one.
Dataset read_text(const DataSpec& spec, const ReadLimits& limits);

/// Numbers the characters by the training part. Those of the evaluation part
/// that do not occur there are left out.
/// Errors: InputError when those are more than one in a hundred.
void fit_text(const DataSpec& spec, Dataset& train, Dataset* eval);

/// Numbers the characters as weights know them, and leaves out others; where
/// they know a tokenizer, the text was read by that (ReadLimits::tokenizer).
/// Errors: InputError when those are more than one in a hundred.
void number_text(const DataSpec& spec,
                 const std::shared_ptr<FittedColumns>& kept, Dataset& part);

/// The ids of a text, whose characters are numbered by their places; without
/// characters those of its bytes. `name`: of the text, for errors.
/// Errors: InputError for a character that is none of them, or no UTF-8.
std::vector<int32_t> ids_of_text(const std::string& text,
                                 const std::vector<int32_t>& characters,
                                 const std::string& name);
/// What an id stands for, in UTF-8; without characters the byte.
std::string text_of_id(int32_t id, const std::vector<int32_t>& characters);

/// Reads a tokenizer.json. Errors: InputError (not readable; as Tokenizer).
Tokenizer read_tokenizer(const std::string& place,
                         const std::shared_ptr<const FileStore>& store);

} // namespace troupe
