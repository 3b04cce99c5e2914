//! One file per subcommand.

mod bundle;
mod check;
mod compile;
mod completions;
mod convert;
mod coverage;
mod diff;
mod doctor;
mod engines;
mod explain;
mod import;
mod ls;
mod quickstart;
mod run;
mod shim;
mod shim_headers;
mod show;
mod store;
mod verify;
mod why;

use crate::{Exit, Global};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// See it all: compile the shipped corpus, run every plan in a new process, check the results
    Quickstart(quickstart::Quickstart),
    /// Read graphs in any form and write native graph artifacts
    Import(import::Import),
    /// Compile graphs into the store
    Compile(compile::Compile),
    /// Execute a stored plan, found by graph or by key
    Run(run::Run),
    /// Execute the stored plans of many graphs and check the results
    Check(check::Check),
    /// Show a graph, a plan file, or a plan of the store: as a table or as a picture
    #[command(visible_alias = "inspect")]
    Show(show::Show),
    /// Convert a graph into another form
    Convert(convert::Convert),
    /// List what differs between two graphs or two plans, and whether it changes the key
    Diff(diff::Diff),
    /// List what each provider offers for a graph, and why not
    Engines(engines::Engines),
    /// Tell why a graph has its key and its engine API floor, or why it is refused
    Explain(explain::Explain),
    /// Check files, or the whole store, byte by byte
    Verify(verify::Verify),
    /// List the plans of the store
    Ls(ls::Ls),
    /// Tell whether the store answers a graph, and if not, why, which entry is nearest, and what differs
    Why(why::Why),
    /// Tell which problems of a run are precompiled
    Coverage(coverage::Coverage),
    /// Look after the store itself
    Store(store::Store),
    /// Make, check, sign and take in bundles: files of many plans that travel
    Bundle(bundle::Bundle),
    /// Put an installed MIOpen behind a wrapper that can forward its calls to stored plans, and undo that
    Shim(shim::Shim),
    /// Tell what must be known when something does not work: store, file system, compilers, devices, forwarding
    Doctor(doctor::Doctor),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

impl Command {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self {
            Self::Quickstart(command) => command.run(global),
            Self::Import(command) => command.run(global),
            Self::Compile(command) => command.run(global),
            Self::Run(command) => command.run(global),
            Self::Check(command) => command.run(global),
            Self::Show(command) => command.run(global),
            Self::Convert(command) => command.run(global),
            Self::Diff(command) => command.run(global),
            Self::Engines(command) => command.run(global),
            Self::Explain(command) => command.run(global),
            Self::Verify(command) => command.run(global),
            Self::Ls(command) => command.run(global),
            Self::Why(command) => command.run(global),
            Self::Coverage(command) => command.run(global),
            Self::Store(command) => command.run(global),
            Self::Bundle(command) => command.run(global),
            Self::Shim(command) => command.run(global),
            Self::Doctor(command) => command.run(global),
            Self::Completions(command) => command.run(),
        }
    }
}
