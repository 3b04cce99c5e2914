//! The `hipplan` command.

mod commands;
mod counts;
mod draw;
mod execute;
mod files;
mod inputs;
mod keys;
mod launches;
mod location;
mod logs;
mod npy;
mod output;
mod plugins;
mod progress;
mod quantity;
mod ready;
mod remote;
mod revision;
mod subject;
mod targets;

use clap::Parser;
use hipplan::{CompileError, Lack, LackReason};
use std::process::ExitCode;

/// Compile neural-network op graphs into plans once, keep them in a store, run them in any later process.
#[derive(Debug, Parser)]
#[command(name = "hipplan", version, max_term_width = 110, after_help = EXAMPLES, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: commands::Command,
}

/// Options of every subcommand.
#[derive(Debug, clap::Args)]
struct Global {
    /// Store folder [default: $HIPPLAN_STORE, else one of the user's cache folder; `hipplan store where` tells]
    #[arg(long, global = true, value_name = "DIR")]
    store: Option<std::path::PathBuf>,
    /// Bundle, or folder of another store, to be read below the store, as PATH, or as off=PATH, warn=PATH or require=PATH where it has a
    /// policy of signatures of its own; may be given several times, before those of $HIPPLAN_LAYERS
    #[arg(long, global = true, value_name = "[POLICY=]PATH")]
    layer: Vec<std::path::PathBuf>,
    #[command(flatten)]
    remote: remote::RemoteArgs,
    /// Print JSON instead of a table
    #[arg(long, global = true)]
    json: bool,
    /// Print what was asked for and errors: no progress bars, no warnings, no counters and no other remarks
    #[arg(short, long, global = true)]
    quiet: bool,
}

impl Global {
    /// Prints a line beside what was asked for, unless only that is wanted.
    fn remark(&self, text: impl std::fmt::Display) -> anyhow::Result<()> {
        if self.quiet { Ok(()) } else { output::line(text) }
    }
}

const EXAMPLES: &str = "\
Examples:
  hipplan quickstart                          see it all on the shipped corpus
  hipplan compile graphs/ --store plans       compile a folder of graphs into a store
  hipplan compile training.log --store plans  every convolution that MIOpen logged
  hipplan run graph.json --store plans --check
  hipplan run 5d0c1f22a9b3 --store plans      run by key: nothing but the store is needed
  hipplan show graph.json                     what is in a graph, a plan file or a key
  hipplan show graph.json --svg -o graph.svg  the same as a picture
  hipplan diff a.json b.json                  what differs, and whether it changes the key
  hipplan explain graph.json                  why it has its key and engine API floor, or why it is refused
  hipplan engines graph.json                  which engines take it, and why others do not
  hipplan why graph.json --store plans        is its plan there? if not, what is nearest and what differs
  hipplan coverage training.log --store plans how much of a run is precompiled
  hipplan ls --store plans --json
  hipplan bundle export -o all.hpbundle       all plans of the store in one file, to be read with --layer
  hipplan store where                         which store is used, and why
  hipplan doctor                              what must be known when something does not work

Exit codes:
  0  everything was done and is as it should be
  1  done, but something is not: a check failed, some of the inputs are invalid, something verified is damaged,
     what `diff` compares has different keys, what `explain` explains has none
  2  not done: wrong usage, or what was named is not there, cannot be read, or is no graph, plan or store
  3  done, but no engine takes some of the graphs
  4  missing: a plan that had to be precompiled (--require-precompiled), or that was asked about (`why`), is not in the store
  5  wrong-target: it is there for other targets only
  6  stale: it is there, and nothing here loads what wrote it
  7  unreadable: it is damaged, or the system refuses to read it; of 4 to 7, the highest counts

The help of each command says which of them it has. docs/environment.md lists the environment variables.";

/// How a command ended, other than with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Good,
    Findings,
    Refused,
    /// Some of what was named is not there or cannot be read; the rest was done.
    Unread,
    /// A plan that had to be there is not.
    Lacking(LackReason),
}

/// The code for a plan that had to be there.
fn lacking(reason: LackReason) -> ExitCode {
    ExitCode::from(match reason {
        LackReason::Missing => 4,
        LackReason::WrongTarget => 5,
        LackReason::Stale => 6,
        LackReason::Unreadable => 7,
    })
}

/// What `HIPPLAN_LOG` says; what cannot be read, or is nothing, says nothing.
fn log_directives() -> Option<tracing_subscriber::EnvFilter> {
    let text = std::env::var("HIPPLAN_LOG").ok().filter(|text| !text.is_empty())?;
    tracing_subscriber::EnvFilter::try_new(text).ok()
}

fn main() -> ExitCode {
    hipplan::compiler::hiprtc::serve_if_asked();
    let cli = Cli::parse();
    let level = if cli.global.quiet { "error" } else { "warn" };
    let filter = log_directives().unwrap_or_else(|| level.into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().with_target(false).init();
    match cli.command.run(&cli.global) {
        Ok(Exit::Good) => ExitCode::SUCCESS,
        Ok(Exit::Findings) => ExitCode::from(1),
        Ok(Exit::Refused) => ExitCode::from(3),
        Ok(Exit::Unread) => ExitCode::from(2),
        Ok(Exit::Lacking(reason)) => lacking(reason),
        Err(error) => {
            anstream::eprintln!("{}hipplan:{} {}", output::BAD, output::RESET, output::error(&error));
            if let Some(lack) = error.downcast_ref::<Lack>() {
                return lacking(lack.reason);
            }
            // Everything was done, and no engine takes the graph.
            let is_refused = |e: &CompileError| matches!(e, CompileError::NoApplicableEngines { .. } | CompileError::CannotPersist { .. });
            ExitCode::from(if error.downcast_ref().is_some_and(is_refused) { 3 } else { 2 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Every command that does something, with its name.
    fn leaves(command: &clap::Command, name: &str, all: &mut Vec<(String, clap::Command)>) {
        if !command.has_subcommands() {
            all.push((name.to_owned(), command.clone()));
        }
        for below in command.get_subcommands() {
            leaves(below, format!("{name} {}", below.get_name()).trim(), all);
        }
    }

    #[test]
    fn the_help_of_every_command_has_examples_exit_codes_and_json() {
        let mut command = Cli::command();
        command.build();
        let mut all = Vec::new();
        leaves(&command, "", &mut all);
        all.retain(|(name, _)| name.split(' ').all(|word| word != "help"));
        assert!(all.len() >= 38, "{}", all.len());
        for (name, mut command) in all {
            let help = command.render_long_help().to_string();
            let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{name}: no examples"));
            assert!(
                examples.contains(&format!("hipplan {name}")) || examples.contains(&format!("hipplan {}", name.replace("inspect", "show"))),
                "{name}"
            );
            let (_, codes) = help.split_once("\nExit codes:\n").unwrap_or_else(|| panic!("{name}: no exit codes"));
            assert!(codes.starts_with("  0  "), "{name}: {codes}");
            assert!(help.contains("--json"), "{name}");
        }
    }
}
