//! `hipplan completions`

use crate::{Cli, Exit};
use clap::CommandFactory;
use std::io::Write;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan completions bash > ~/.local/share/bash-completion/completions/hipplan
  hipplan completions zsh > ~/.zfunc/_hipplan")]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "hipplan", &mut script);
        std::io::stdout().lock().write_all(&script)?;
        Ok(Exit::Good)
    }
}
