//! Random variant packs under AddressSanitizer: `variant_packs EXECUTIONS [PLUGIN...]`, each plugin one that computes in host memory.

use hipplan_engine_testing::{Plugins, packs};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let executions = arguments.next().ok_or("usage: variant_packs EXECUTIONS [PLUGIN...]")?.parse()?;
    let of_ours = Plugins::build("packs", &[])?;
    let mut subjects = vec![packs::Subject::cpu()?, packs::Subject::plugin(&of_ours)?];
    for path in arguments {
        subjects.push(packs::Subject::plugin(Path::new(&path))?);
    }
    let summary = packs::execute_random_packs(&mut subjects, executions, 1)?;
    println!("{executions} executions with {} plans: {} executed, {} refused, nothing found", subjects.len(), summary.executed, summary.refused);
    Ok(())
}
