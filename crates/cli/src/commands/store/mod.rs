//! `hipplan store`: one file per subcommand.

mod where_;

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
}

impl Store {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self.command {
            StoreCommand::Where(command) => command.run(global),
        }
    }
}
