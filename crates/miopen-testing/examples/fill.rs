//! Compiles recorded graphs, driver lines or logs for the simulated device, with the twins of their kernels.
//!
//! `fill FOLDER INPUT...` makes `FOLDER/store` and `FOLDER/twins`: what `HIPPLAN_MIOPEN_STORE` and `HIPPLAN_HOST_HIP_TWINS` name.

use hipplan_miopen_testing::filled::Filled;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, inputs @ ..] = arguments.as_slice() else { return Err("usage: fill FOLDER INPUT...".into()) };
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder)?;
    let filled = Filled::new(folder, &folder.join("cache"))?;
    let fill = filled.files(&inputs.iter().map(Path::new).collect::<Vec<_>>())?;
    for refusal in &fill.refused {
        println!("refused: {refusal}");
    }
    println!("{} compiled, {} refused", fill.compiled.len(), fill.refused.len());
    Ok(())
}
