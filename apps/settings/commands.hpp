#pragma once

#include "apps/settings/settings.hpp"

namespace troupe {

class RoleHosts;

/// The commands of the program. Each returns the exit status; main turns an
/// exception into one line and a status (UsageError: 2, all others: 1).
/// `hosts`: that roles are started on; null: this machine.
int run_train(const Settings& settings, RoleHosts* hosts = nullptr);
int run_launch(const Settings& settings);
/// launch --kubernetes
int print_kubernetes(const Settings& settings);
int run_node(const Settings& settings);
int run_role(const Settings& settings);
int run_voter(const Settings& settings);
int run_bench_step(const Settings& settings);
int run_bench_data(const Settings& settings);
int run_bench_kernels(const Settings& settings);
int run_bench_all_reduce(const Settings& settings);
int run_bench_null_step(const Settings& settings);
int run_bench_parameter_server(const Settings& settings);
int run_bench_pipeline(const Settings& settings);
int run_bench_recovery(const Settings& settings);
int run_bench_goodput(const Settings& settings);
int run_checkpoint(const Settings& settings);
int run_chaos(const Settings& settings);
int run_status(const Settings& settings);
int run_top(const Settings& settings);
int run_doctor(const Settings& settings);
int run_timeline(const Settings& settings);
int run_report_of(const Settings& settings);
int run_events(const Settings& settings);
int run_ctl_consistency(const Settings& settings);
int run_ctl_reshape(const Settings& settings);
int run_certificates(const Settings& settings);
int run_plan(const Settings& settings);
int run_evaluate(const Settings& settings);
int run_predict(const Settings& settings);
int run_generate(const Settings& settings);
int run_model_show(const Settings& settings);
int run_data_info(const Settings& settings);
int run_version(const Settings& settings);

} // namespace troupe
