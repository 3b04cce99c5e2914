//! A child made by `fork` runs what its parent prepared, although none of the pool's threads came along.

use super::super::{Executable, StepOp};
use super::harness::{Case, Mem, Rng, pool};
use hipplan_serialize::DataType;

#[test]
fn a_forked_child_computes_the_same_bits() {
    let mut rng = Rng(1);
    let mut case = Case::default();
    let size = [300, 300];
    let a = case.add(Mem::packed(DataType::Float, &size).fill(&mut rng));
    let b = case.add(Mem::packed(DataType::Float, &size).fill(&mut rng));
    let c = case.add(Mem::packed(DataType::Float, &size));
    case.step(StepOp::Matmul { a, b, compute: DataType::Float.to_wire() }, c);
    let mut executable = Executable::prepare_on(&case.program(), pool(3)).unwrap();
    let bases: Vec<*mut u8> = case.mems.iter_mut().map(|mem| mem.data.as_mut_ptr().cast()).collect();
    let run = |executable: &mut Executable| {
        // SAFETY: each base covers its tensor's span, and nobody else uses the memory.
        unsafe { executable.run(&bases, std::ptr::null_mut()) };
    };
    run(&mut executable);
    let elements = size[0] * size[1];
    let result = bases[2].cast::<u32>();
    // SAFETY: the result has so many elements, all of them written.
    let want = unsafe { std::slice::from_raw_parts(result, elements) }.to_vec();
    for _ in 0..3 {
        // SAFETY: the child of this process of many threads allocates nothing, takes no lock and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "the system forks");
        if child == 0 {
            // SAFETY: the result has so many elements, here in the child's own copy of the memory.
            unsafe {
                result.write_bytes(0xff, elements);
                run(&mut executable);
                let same = (0..elements).all(|i| result.add(i).read() == want[i]);
                libc::_exit(if same { 0 } else { 1 });
            }
        }
        let mut status = -1;
        let start = std::time::Instant::now();
        // SAFETY: the status is a local; a child that hangs is ended by its own number.
        unsafe {
            while libc::waitpid(child, &raw mut status, libc::WNOHANG) == 0 {
                std::thread::sleep(std::time::Duration::from_millis(1));
                if start.elapsed().as_secs() > 60 {
                    libc::kill(child, libc::SIGKILL);
                }
            }
        }
        assert_eq!(status, 0, "the child ended with this status");
        // The parent's threads are still there.
        run(&mut executable);
    }
}
