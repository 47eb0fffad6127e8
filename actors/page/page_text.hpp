#pragma once

namespace troupe {

/// page.html, as the build found it, with style.css and drawing.js in it. Each
/// NONCE in it stands for a word that the answer's head repeats.
extern const char* const page_text;

/// The same of report.html, which repeats that word itself. RUN_DATA stands for
/// the summary of a run.
extern const char* const report_text;

} // namespace troupe
