//! `hipplan completions`

use crate::{Cli, Exit, output};
use clap::CommandFactory;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan completions bash > ~/.local/share/bash-completion/completions/hipplan
  hipplan completions zsh > ~/.zfunc/_hipplan

Exit codes:
  0  printed")]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "hipplan", &mut script);
        output::raw(&script)?;
        Ok(Exit::Good)
    }
}
