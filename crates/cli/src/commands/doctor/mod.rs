//! `hipplan doctor`

mod engines;
mod miopen;
mod place;

use crate::{Exit, Global, output};
use serde_json::json;

/// Tell what must be known when something does not work
///
/// The version; where the store is, and whether it can be written there, locks hold and files can be mapped; layers, signatures and the remote;
/// compilers, the HIP runtime and its devices, plugins; and MIOpen's forwarding. What a file system does is tried in a new folder, which
/// is removed. No remote is asked, and no credentials are printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan doctor
  hipplan doctor --store /mnt/share/plans --json
  hipplan doctor --quiet                      only what is not as it should be

Exit codes:
  0  nothing is a problem; a warning is something that may be meant so
  1  something is a problem")]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let mut report = Report::default();
        let remote = if cfg!(feature = "remote") { "with" } else { "without" };
        report.good("version", format!("hipplan {}, built {remote} the remote tier", env!("CARGO_PKG_VERSION")));
        place::check(global, &mut report);
        engines::check(&mut report);
        miopen::check(&mut report);
        report.print(global)
    }
}

/// How something is, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Good,
    Warning,
    Problem,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    const fn style(self) -> anstyle::Style {
        match self {
            Self::Good => output::GOOD,
            Self::Warning => output::WARN,
            Self::Problem => output::BAD,
        }
    }
}

#[derive(Debug)]
struct Finding {
    check: &'static str,
    state: State,
    text: String,
    /// What to do where it is not good.
    advice: Option<String>,
}

#[derive(Debug, Default)]
struct Report(Vec<Finding>);

impl Report {
    fn good(&mut self, check: &'static str, text: impl Into<String>) {
        self.0.push(Finding { check, state: State::Good, text: text.into(), advice: None });
    }

    fn warning(&mut self, check: &'static str, text: impl Into<String>, advice: impl Into<String>) {
        self.bad(State::Warning, check, text, advice);
    }

    fn problem(&mut self, check: &'static str, text: impl Into<String>, advice: impl Into<String>) {
        self.bad(State::Problem, check, text, advice);
    }

    fn bad(&mut self, state: State, check: &'static str, text: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { check, state, text: text.into(), advice: Some(advice.into()) });
    }

    /// A problem where somebody said by a variable what to use, else a warning: that it is not there may be meant so.
    fn unless_said(&mut self, variable: &str, check: &'static str, text: impl Into<String>, advice: impl Into<String>) {
        let state = if is_set(variable) { State::Problem } else { State::Warning };
        self.bad(state, check, text, advice);
    }

    fn print(&self, global: &Global) -> anyhow::Result<Exit> {
        let worst = self.0.iter().map(|finding| finding.state).max().unwrap_or(State::Good);
        if global.json {
            let row = |f: &Finding| json!({ "check": f.check, "outcome": f.state.word(), "text": f.text, "advice": f.advice });
            output::json(&json!({
                "version": env!("CARGO_PKG_VERSION"),
                "outcome": worst.word(),
                "checks": self.0.iter().map(row).collect::<Vec<_>>(),
            }))?;
        } else {
            for finding in self.0.iter().filter(|finding| !global.quiet || finding.state != State::Good) {
                let (style, word) = (finding.state.style(), finding.state.word());
                output::line(format_args!("{style}{word:<8}{}{:<11} {}", output::RESET, finding.check, output::name(&finding.text)))?;
                if let Some(advice) = &finding.advice {
                    output::line(format_args!("{:<19} {}", "", output::name(advice)))?;
                }
            }
        }
        Ok(if worst == State::Problem { Exit::Findings } else { Exit::Good })
    }
}

/// Whether a variable has a value; one that is empty counts as not set, as everywhere.
fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
