//! `hipplan store`: one file per subcommand.

mod compact;
mod gc;
mod ls;
mod named;
mod pins;
mod push;
mod repair;
mod rm;
pub(super) mod selftest;
mod stat;
pub(super) mod where_;

use crate::{Exit, Global};

/// Look after the store itself
#[derive(Debug, clap::Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, clap::Subcommand)]
enum StoreCommand {
    /// Tell where the store is, and why not elsewhere
    Where(where_::Where),
    /// List the entries of the store: blobs, plans, and the records that name plans
    Ls(ls::Ls),
    /// Count what is in the store, and when it was used
    Stat(stat::Stat),
    /// Check the whole store, byte by byte; the same as `hipplan verify` without files
    #[command(after_help = "\
Examples:
  hipplan store verify --store plans

Exit codes:
  0  all is good
  1  something is damaged, missing, does not belong there, or could not be read
  2  there is no store")]
    Verify,
    /// Remove what nothing reaches, and what limits leave no room for
    Gc(gc::Gc),
    /// Remove plans, selections, or all plans of a graph
    Rm(rm::Rm),
    /// Keep plans, selections, or all plans of a graph from removal
    Pin(pins::PinSome),
    /// Let go of what a set of pins keeps
    Unpin(pins::Unpin),
    /// List the pins
    Pins(pins::List),
    /// Fold loose files and small packs into one pack
    Compact(compact::Compact),
    /// Put all that the store and its layers have into the remote store
    Push(push::Push),
    /// Put right what `verify` finds wrong
    Repair(repair::Repair),
    /// Try whether a folder is a good place for a store
    Selftest(selftest::Selftest),
}

impl Store {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self.command {
            StoreCommand::Where(command) => command.run(global),
            StoreCommand::Ls(command) => command.run(global),
            StoreCommand::Stat(command) => command.run(global),
            StoreCommand::Verify => super::verify::verify_store(global),
            StoreCommand::Gc(command) => command.run(global),
            StoreCommand::Rm(command) => command.run(global),
            StoreCommand::Pin(command) => command.run(global),
            StoreCommand::Unpin(command) => command.run(global),
            StoreCommand::Pins(command) => command.run(global),
            StoreCommand::Compact(command) => command.run(global),
            StoreCommand::Push(command) => command.run(global),
            StoreCommand::Repair(command) => command.run(global),
            StoreCommand::Selftest(command) => command.run(global),
        }
    }
}
