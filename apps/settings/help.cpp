#include "apps/settings/help.hpp"

#include "apps/settings/defaults.hpp"
#include "apps/settings/flags.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/suggestion.hpp"

#include <algorithm>

namespace troupe {

namespace {

constexpr size_t columns = 80;
constexpr size_t indent = 28; // where the text of a flag begins

/// Breaks `text` at blanks; every line but the first starts at `left`.
std::string wrapped(const std::string& text, size_t left) {
  std::string out;
  auto column = left;
  for (size_t i = 0; i < text.size();) {
    auto end = std::min(text.find(' ', i), text.size());
    auto word = text.substr(i, end - i);
    if (column > left && column + 1 + word.size() > columns) {
      out += '\n' + std::string(left, ' ');
      column = left;
    } else if (column > left) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    i = end + 1;
  }
  return out;
}

std::string entry(const std::string& name, const std::string& text) {
  auto out = "  " + name;
  if (out.size() + 2 > indent)
    out += '\n' + std::string(indent, ' ');
  else
    out.append(indent - out.size(), ' ');
  return out + wrapped(text, indent) + '\n';
}

struct Purpose {
  const char* command;
  const char* usage;
  const char* text;
  const char* examples;
};

constexpr Purpose purposes[] = {
  {"train", "troupe train --data SPEC [flags]",
   "Trains a model on this machine, with every role it needs.",
   "  troupe train --data synthetic:digits --eval-fraction 0.15 --devices "
   "cpu:2\n"
   "  troupe train --data mnist:DIR --eval-fraction 0.15 \\\n"
   "    --strategy parameter_server --workers 2 --ps 2 --epochs 8 \\\n"
   "    --save digits.safetensors --summary run.json\n"
   "  troupe train --data synthetic:digits --print-config > job.toml\n"
   "  troupe train --config job.toml --steps 100\n"},
  {"plan", "troupe plan [flags of train]",
   "Shows, without running anything, which role runs where and which variable "
   "lives where.",
   "  troupe plan --strategy parameter_server --workers 3 --ps 2\n"},
  {"evaluate", "troupe evaluate --checkpoint FILE --data SPEC [flags]",
   "Prints loss and accuracy of saved weights.",
   "  troupe evaluate --checkpoint digits.safetensors --data mnist:DIR \\\n"
   "    --eval-fraction 0.15\n"},
  {"predict", "troupe predict --checkpoint FILE --data SPEC --out FILE [flags]",
   "Writes what saved weights say of each sample: its class or number, one a "
   "line; with --output a row of probabilities or logits.",
   "  troupe predict --checkpoint digits.safetensors --data mnist:DIR \\\n"
   "    --eval-fraction 0.15 --out predictions.txt\n"
   "  troupe predict --checkpoint digits.safetensors --data mnist:DIR \\\n"
   "    --output probabilities --out probabilities.npy\n"},
  {"generate", "troupe generate --checkpoint FILE [--prompt TEXT] [flags]",
   "Goes on with a text by the saved weights of a language model, and writes "
   "each token as soon as it is there. The model is the one that the weights "
   "were trained with, unless --model says otherwise, and the characters are "
   "those kept with them. At the end it says on standard error how many tokens "
   "a second those were.",
   "  troupe generate --checkpoint text.safetensors --prompt 'Once '\n"
   "  troupe generate --checkpoint kept --temperature 0.8 --top-k 40 \\\n"
   "    --max-tokens 500 < beginning.txt\n"},
  {"role", "troupe role ROLE --coordinator HOST:PORT --certificates DIR",
   "Starts one role of a job by hand: worker:N, ps:N, sharded:N or "
   "coordinator. With TF_CONFIG set (cluster: chief, worker, ps, evaluator; "
   "task: type, index), plainly 'troupe role'. The coordinator takes the flags "
   "of train; all others get the job from it.",
   "  troupe role coordinator --listen 10.0.0.1:7000 --certificates certs \\\n"
   "    --data mnist:DIR --workers 2 --ps 1\n"
   "  troupe role worker:0 --coordinator 10.0.0.1:7000 --certificates certs\n"},
  {"voter", "troupe voter --listen HOST:PORT --journal FILE --certificates DIR",
   "Keeps a copy of a job's journal for its coordinators, and votes on which "
   "of "
   "them leads. A job on several hosts has two coordinators, each with a voter "
   "of its own, and this one; a majority decides.",
   "  troupe voter --listen 10.0.0.3:7001 --journal vote.db "
   "--certificates certs\n"
   "  troupe role coordinator --listen 10.0.0.1:7000 --certificates certs \\\n"
   "    --voters 10.0.0.1:7001,10.0.0.2:7001,10.0.0.3:7001 --voter 0 \\\n"
   "    --journal vote.db --data mnist:DIR --workers 2 --ps 1\n"},
  {"launch", "troupe launch -H HOST:N,HOST:N [flags] -- train FLAGS",
   "Trains on several hosts by one command: its roles run there, started over "
   "ssh, which must not ask for anything; coordinator, data to judge by and "
   "all "
   "files that are written stay on this machine. Each worker, shard and stage "
   "takes one of a host's N slots. The program is copied to hosts that lack "
   "it; "
   "data must be under the same path on each. What hosts cannot reach is said "
   "before the first step. Everything ends with this process, however it "
   "ends. In an allocation of Slurm's, -H may be left out. With --kubernetes "
   "it prints the job as kubectl apply takes it instead.",
   "  troupe launch -H host1:2,host2:2 -- train --data mnist:DIR \\\n"
   "    --strategy multi_worker_mirrored --workers 4\n"
   "  troupe launch --hosts-file hosts --dry-run -- train --data mnist:DIR \\\n"
   "    --strategy parameter_server --workers 6 --ps 2 --chain 2\n"
   "  troupe launch --kubernetes --claim mnist:/data -- train \\\n"
   "    --data mnist:/data --strategy multi_worker_mirrored --workers 4 \\\n"
   "    | kubectl apply -f -\n"},
  {"node", "troupe node",
   "Is a host's agent of troupe launch: reads from standard input what to do "
   "there. Nobody starts it by hand.",
   "  ssh host1 troupe node\n"},
  {"status", "troupe status HOST:PORT",
   "Shows a running job: its step, its passes over the samples (data epoch) "
   "and changes of members (membership epoch), its roles, and over what they "
   "are "
   "linked. The address is the one that the run printed as metrics.",
   "  troupe status 127.0.0.1:9400\n"},
  {"top", "troupe top HOST:PORT [flags]",
   "Watches a running job on the whole terminal: rate, ETA, and for each role "
   "processor, memory, the parts of its steps, traffic, who waits for whom. "
   "Keys: q quits, s sorts, g groups, / filters, arrows select, l shows the "
   "selected role's log (with the run's --log-dir), space pauses. The address "
   "is the one that the run printed as metrics.",
   "  troupe top 127.0.0.1:9400\n"
   "  troupe top 127.0.0.1:9400 --once --sort cpu\n"},
  {"doctor", "troupe doctor [HOST:PORT] [flags]",
   "Looks at this machine: what a run needs of it, and whether what --listen, "
   "--certificates, --coordinator, --data and --devices name is fit for one. "
   "Or at the running job whose metrics are at HOST:PORT: who holds it up, "
   "why, "
   "and what to do. Status 1 where something is wrong.",
   "  troupe doctor --coordinator 10.0.0.1:7000 --certificates certs\n"
   "  troupe doctor --devices cuda:all\n"
   "  troupe doctor 127.0.0.1:9400\n"},
  {"timeline", "troupe timeline DIR --out FILE",
   "Draws what each role of a run did last, step by step, as a Chrome trace, "
   "which ui.perfetto.dev and chrome://tracing show. DIR is the run's "
   "--flight, "
   "or flight in its --log-dir; the run may go on, or have been killed.",
   "  troupe timeline logs/flight --out run.trace.json\n"},
  {"report", "troupe report SUMMARY FILE",
   "Writes what a run did as one page of HTML for a browser, which asks nobody "
   "for anything: curves, where each role's time went, what was lost and made "
   "up for. SUMMARY is the run's --summary; the run itself writes such a page "
   "with --report.",
   "  troupe report run.json run.html\n"},
  {"events", "troupe events FILE|DIR [flags]",
   "Shows what the coordinator of a run wrote into its journal: epochs, "
   "deaths, recoveries, commits, changes. The run may go on meanwhile. DIR is "
   "its --log-dir. With --flight: what its roles did last.",
   "  troupe events run.db --kind recovery\n"
   "  troupe events logs --role ps:1 --since-step 500 --json\n"
   "  troupe events --flight logs --role worker:1\n"},
  {"chaos", "troupe chaos [flags] -- train FLAGS --processes",
   "Runs a job while its roles are killed, stopped, slowed or cut off, each in "
   "a chosen phase of a step: pull, compute, push, reduce, forward, seal, copy "
   "(of a repair); its coordinator dies too. Never are two of one chain down "
   "at once. Then runs it undisturbed and says whether the weights are the "
   "same, what struck where, when steps went on, and whether anything was left "
   "behind. Status 1: something was lost.",
   "  troupe chaos --seed 1 --faults 40 --json verdict.json -- train \\\n"
   "    --data synthetic:digits --strategy parameter_server --workers 3 \\\n"
   "    --ps 2 --chain 2 --processes --steps 4000\n"
   "  troupe chaos --kinds stop,cut --write-plan faults.toml -- train …\n"
   "  troupe chaos --plan faults.toml -- train …\n"},
  {"checkpoint ls", "troupe checkpoint ls DIR",
   "Lists the checkpoints in a --checkpoint-dir, newest first.",
   "  troupe checkpoint ls checkpoints\n"},
  {"checkpoint verify", "troupe checkpoint verify DIR",
   "Reads checkpoints, of a --checkpoint-dir or one of them, and compares "
   "every byte with the digests in their manifests; names the tensor that is "
   "damaged.",
   "  troupe checkpoint verify checkpoints\n"},
  {"checkpoint export", "troupe checkpoint export DIR --out FILE",
   "Writes the weights of a checkpoint, or of the newest in a folder, as one "
   "safetensors file; or those of a language model, of a file of --save too, "
   "as a folder that Hugging Face's transformers loads.",
   "  troupe checkpoint export checkpoints --out digits.safetensors\n"
   "  troupe checkpoint export text.safetensors --layout hugging_face \\\n"
   "    --out text-model\n"},
  {"ctl consistency",
   "troupe ctl consistency sync|async|staleness:N --coordinator HOST:PORT "
   "--certificates DIR",
   "Switches a running job between synchronous and asynchronous steps, or to "
   "another bound on staleness, and waits until it is so. Address and folder "
   "are those that the run printed.",
   "  troupe ctl consistency staleness:8 --coordinator 127.0.0.1:7000 \\\n"
   "    --certificates certs\n"},
  {"ctl shards",
   "troupe ctl shards add [N] | remove ps:I --coordinator HOST:PORT "
   "--certificates DIR",
   "Starts shards beside those of a running job, which get their part of the "
   "slices, or lets one go, whose slices the others take; waits until it is "
   "so. Training goes on meanwhile, and its bits do not change.",
   "  troupe ctl shards add 2 --coordinator 127.0.0.1:7000 --certificates "
   "certs\n"},
  {"ctl workers",
   "troupe ctl workers add [N] | remove worker:I --coordinator HOST:PORT "
   "--certificates DIR",
   "Starts workers in a running job, up to its virtual ranks, or lets one go; "
   "waits until it is so.",
   "  troupe ctl workers remove worker:0 --coordinator 127.0.0.1:7000 \\\n"
   "    --certificates certs\n"},
  {"certificates new",
   "troupe certificates new MEMBER --certificates DIR [--out DIR]",
   "Makes a key and a certificate for a member (coordinator, worker:N, ps:N, "
   "evaluator:N, voter, supervisor, operator), signed with the authority's key "
   "in --certificates, which is made where there is none.",
   "  troupe certificates new worker:1 --certificates certs --out for-b\n"},
  {"certificates token", "troupe certificates token MEMBER --certificates DIR",
   "Prints a token with which that member joins once, from a machine that has "
   "no certificate yet: it makes its own key, and the coordinator signs it. "
   "authority:N: a standby's, which signs after it has taken over.",
   "  troupe certificates token worker:1 --certificates certs\n"
   "  troupe role worker:1 --coordinator 10.0.0.1:7000 --certificates mine \\\n"
   "    --token TOKEN\n"},
  {"certificates renew",
   "troupe certificates renew MEMBER --coordinator HOST:PORT --certificates "
   "DIR",
   "Has a member's certificate followed by a new one before it ends, with a "
   "fresh key. Running roles do so themselves.",
   "  troupe certificates renew worker:1 --coordinator 10.0.0.1:7000 \\\n"
   "    --certificates mine\n"},
  {"certificates revoke",
   "troupe certificates revoke MEMBER --coordinator HOST:PORT --certificates "
   "DIR",
   "Cuts a member off from the coordinator: certificates that it has hold no "
   "longer there. Needs the operator's certificate.",
   "  troupe certificates revoke worker:1 --coordinator 10.0.0.1:7000 \\\n"
   "    --certificates certs\n"},
  {"certificates show", "troupe certificates show --certificates DIR",
   "Lists whose certificates a folder has, and when they hold.",
   "  troupe certificates show --certificates certs\n"},
  {"ctl rebalance",
   "troupe ctl rebalance --coordinator HOST:PORT --certificates DIR",
   "Spreads the slices of a running job over its shards, by bytes and by how "
   "fast each shard is, with the fewest moves; waits until it is so.",
   "  troupe ctl rebalance --coordinator 127.0.0.1:7000 --certificates "
   "certs\n"},
  {"ctl move-slices",
   "troupe ctl move-slices --from ps:I --to ps:J [--slices I,…] --coordinator "
   "HOST:PORT --certificates DIR",
   "Moves slices of a running job from one shard to another; waits until it is "
   "so.",
   "  troupe ctl move-slices --from ps:0 --to ps:1 --slices 3,4 \\\n"
   "    --coordinator 127.0.0.1:7000 --certificates certs\n"},
  {"bench step", "troupe bench step [flags]",
   "Measures a training step with actors against a plain loop.",
   "  troupe bench step --data synthetic:digits --json step.json\n"},
  {"bench data", "troupe bench data --data SPEC [flags]",
   "Measures how many samples a second are read, decoded and augmented, as "
   "training takes them, and nothing else; samples read twice have to be "
   "equal.",
   "  troupe bench data --data synthetic:digits --seconds 1\n"
   "  troupe bench data --threads 1,2 --data \\\n"
   "    'images:DIR?augment=random_resized_crop:224,flip'\n"},
  {"bench kernels", "troupe bench kernels [flags]",
   "Measures operators, optimizers and compression on one thread against what "
   "the machine can do.",
   "  troupe bench kernels --isa avx2 --json kernels.json\n"},
  {"bench all-reduce", "troupe bench all-reduce [flags]",
   "Measures all-reduces between threads, between processes over shared memory "
   "and over TCP, against Open MPI and Gloo where tests/peers/build found "
   "them; "
   "with --link actors, what an all-reduce costs between actors.",
   "  troupe bench all-reduce --members 2 --bytes 1MiB --link memory\n"
   "  troupe bench all-reduce --members 1,10,100 --link actors\n"},
  {"bench null-step", "troupe bench null-step [flags]",
   "Measures a step of a parameter server with one scalar parameter, whose "
   "workers compute nothing: what the messages alone take.",
   "  troupe bench null-step --workers 1,10,100\n"
   "  troupe bench null-step --ps 16 --filled 1GiB,8GiB\n"},
  {"bench parameter-server", "troupe bench parameter-server [flags]",
   "Measures push, update and pull between the processes of a worker and a "
   "shard, of dense parameters and of pairs of a key and a value, against "
   "ps-lite where tests/peers/build found it.",
   "  troupe bench parameter-server --rounds 5 --json server.json\n"},
  {"bench pipeline", "troupe bench pipeline [flags]",
   "Measures which share of a step the stages of a pipeline wait for each "
   "other, with stages that wait instead of computing, against what the order "
   "of their passes says.",
   "  troupe bench pipeline --stages 4 --micro-batches 8 --json pipeline.json\n"
   "  troupe bench pipeline --schedule 1f1b,zero_bubble --pass-ms 5,10\n"},
  {"bench recovery", "troupe bench recovery [flags]",
   "Measures how long a job of processes makes no step after a role was killed "
   "or stopped: from the signal to the first step committed without that role, "
   "both by this machine's clock. Its weights are those of one device in the "
   "end, or nothing is measured.",
   "  troupe bench recovery --trials 50 --json recovery.json\n"
   "  troupe bench recovery --kinds worker,shard --trials 10\n"},
  {"bench goodput", "troupe bench goodput [flags]",
   "Measures how many steps a second a job of four workers commits when one of "
   "them is killed every minute, against the same job undisturbed.",
   "  troupe bench goodput --kills 5 --json goodput.json\n"},
  {"model show", "troupe model show [M] [flags]",
   "Prints a model: its operators with shapes, parameters, FLOPs and memory, "
   "or its graph for Graphviz, or a model file that makes it.",
   "  troupe model show cnn\n"
   "  troupe model show transformer:L4-H4-D128-T64 --data text:FILE\n"
   "  troupe model show resnet20 --format dot | dot -Tsvg > resnet20.svg\n"
   "  troupe model show dlrm --format json > mine.json\n"},
  {"data info", "troupe data info csv:FILE|parquet:FILES",
   "Looks at a table and prints what its columns hold, with the data "
   "specification that makes numbers, categories, dates and a label of them.",
   "  troupe data info csv:people.csv\n"
   "  troupe data info \"csv:people.csv?sep=;&label=income\"\n"
   "  troupe data info \"parquet:people-*.parquet\"\n"},
  {"version", "troupe version",
   "Prints the versions of the program, its compiler and its libraries.",
   "  troupe version\n"},
};

std::string joined(const std::vector<std::string>& words,
                   const std::string& before) {
  std::string out;
  for (const auto& word : words)
    out += (out.empty() ? "" : ", ") + before + word;
  return out;
}

std::string overview() {
  std::string out = "Troupe: distributed training as supervised actors.\n\n"
                    "usage: troupe COMMAND [flags]\n\nCommands\n";
  for (const auto& purpose : purposes)
    out += entry(purpose.command, purpose.text);
  out += entry("help COMMAND", "Shows the flags of a command, as COMMAND "
                               "--help does.");
  out += "\nExamples\n";
  for (const auto& purpose : purposes)
    out += purpose.examples;
  out +=
    "\nExit status\n"
    "  0 done · 1 a failure found at work · 2 a mistake in flags, "
    "configuration file\n  or TF_CONFIG · 130 after Ctrl-C, 143 after "
    "SIGTERM, 129 after SIGHUP\n"
    "  of role: 65 samples turned out to be wrong · 75 another coordinator "
    "has taken\n  over; start it again, as its standby\n";
  return out;
}

/// Those that begin with this word: `bench step`, `bench data`, …
std::vector<Purpose> group_of(const std::string& word) {
  std::vector<Purpose> out;
  for (const auto& purpose : purposes)
    if (std::string{purpose.command}.starts_with(word + ' '))
      out.push_back(purpose);
  return out;
}

std::string overview_of(const std::string& word,
                        const std::vector<Purpose>& group) {
  auto out = "usage: troupe " + word + " WHAT [flags]\n\n";
  for (const auto& purpose : group)
    out += entry(purpose.command, purpose.text);
  return out + "\n'troupe " + word + " WHAT --help' has the flags of each.\n";
}

std::string flags_of(const std::string& command) {
  const Settings usual;
  const auto own = defaults_of(command);
  std::string out;
  std::string group;
  for (const auto& flag : all_flags()) {
    if ((flag.commands & bit_of(command)) == 0 || flag.group.empty())
      continue;
    if (flag.group != group)
      out += '\n' + flag.group + '\n';
    group = flag.group;
    auto name = "--" + flag.name
                + (flag.value.empty() || flag.type == FlagType::toggle ? ""
                                                                       : " ")
                + flag.value;
    const bool differs = flag.get && flag.get(own) != flag.get(usual);
    const auto fallback = differs ? flag.get(own) : flag.fallback;
    out += entry(name, flag.help + " (" + fallback + ")");
  }
  return out;
}

} // namespace

std::string help(const std::string& topic) {
  if (topic.empty() || topic == "help")
    return overview();
  const auto group = group_of(topic);
  if (group.size() > 1)
    return overview_of(topic, group);
  const auto wanted = group.empty() ? topic : std::string{group[0].command};
  for (const auto& purpose : purposes) {
    if (wanted != purpose.command)
      continue;
    auto out = std::string{"usage: "} + purpose.usage + "\n\n"
               + wrapped(purpose.text, 0) + '\n';
    if (bit_of(wanted) == 0)
      return out;
    out += "\nExamples\n" + std::string{purpose.examples}
           + "\nFlags, with their defaults in parentheses. Each has a key of "
             "the same name in\nthe TOML file that --config reads; a flag wins "
             "over TF_CONFIG, TF_CONFIG over\nthe file.\n"
           + flags_of(wanted);
    std::vector<std::string> later;
    for (const auto& flag : later_flags())
      later.emplace_back(flag.name);
    if ((bit_of(wanted) & on_jobs) != 0)
      out += "\nNot available yet\n  " + wrapped(joined(later, "--"), 2) + '\n';
    return out;
  }
  auto known = commands();
  auto near = nearest(topic, known);
  throw UsageError("no help on " + topic
                   + (near.empty()
                        ? "; run 'troupe --help'"
                        : "; did you mean troupe help " + near + "?"));
}

} // namespace troupe
