//! Compiles each kernel once in a process, however many plans and threads want it.

use super::{KernelCompileError, KernelCompiler, KernelSource};
use hipplan_serialize::Target;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// A compiler with a memory. Kernels are told apart by their names and whole texts.
///
/// A thread that asks for what another is compiling waits for it, and shares its failure. A failure is not kept: who asks later compiles
/// again. Nothing else is forgotten before the cache is dropped. A forked child begins anew, for what its parent's other threads were
/// compiling never comes to an end there; a child of that one goes without.
pub struct CachedCompiler<C> {
    compiler: C,
    /// Those of a process, by its id: first of the one that made the cache, then of a child.
    attempts: [OnceLock<(u32, Attempts)>; 2],
    runs: AtomicU64,
    hits: AtomicU64,
}

type Attempts = Mutex<HashMap<Key, Arc<Attempt>>>;

/// Hash of the kernel's name and text, and target.
type Key = (blake3::Hash, Target);

/// One run of the compiler, at work or done.
#[derive(Debug, Default)]
struct Attempt {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Running,
    Done(Arc<[u8]>),
    Failed(Arc<KernelCompileError>),
    /// The compiler panicked.
    Abandoned,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half-done under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attempt {
    fn end(&self, state: State) {
        *lock(&self.state) = state;
        self.changed.notify_all();
    }

    /// What it came to; nothing if it was abandoned.
    fn wait(&self) -> Option<Result<Arc<[u8]>, Arc<KernelCompileError>>> {
        let running = |state: &mut State| matches!(state, State::Running);
        let state = self.changed.wait_while(lock(&self.state), running).unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Done(object) => Some(Ok(object.clone())),
            State::Failed(error) => Some(Err(error.clone())),
            State::Running | State::Abandoned => None,
        }
    }
}

/// An attempt of this thread. Forgotten when dropped, unless it was kept.
struct Mine<'a> {
    attempts: &'a Attempts,
    key: Option<Key>,
    attempt: Arc<Attempt>,
}

impl Mine<'_> {
    fn keep(mut self, object: Arc<[u8]>) {
        self.key = None;
        self.attempt.end(State::Done(object));
    }

    fn forget(mut self, error: Arc<KernelCompileError>) {
        // Forgotten first: who comes after the failure is known must not find it.
        self.remove();
        self.attempt.end(State::Failed(error));
    }

    fn remove(&mut self) {
        if let Some(key) = self.key.take() {
            lock(self.attempts).remove(&key);
        }
    }
}

impl Drop for Mine<'_> {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.remove();
            self.attempt.end(State::Abandoned);
        }
    }
}

impl<C: KernelCompiler> CachedCompiler<C> {
    /// Around a compiler.
    pub fn new(compiler: C) -> Self {
        let attempts = [OnceLock::from((std::process::id(), Attempts::default())), OnceLock::new()];
        Self { compiler, attempts, runs: AtomicU64::new(0), hits: AtomicU64::new(0) }
    }

    /// The compiler inside.
    pub fn inner(&self) -> &C {
        &self.compiler
    }

    /// How often the compiler was run.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// How often it was not, because the object was there or another thread was making it.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Those of this process.
    fn attempts(&self) -> Option<&Attempts> {
        let process = std::process::id();
        self.attempts.iter().find_map(|attempts| {
            let (owner, attempts) = attempts.get_or_init(|| (process, Attempts::default()));
            (*owner == process).then_some(attempts)
        })
    }

    /// Compiles a kernel, or gives what was made of it before, shared.
    ///
    /// # Errors
    /// As the compiler's own; a failure that this thread waited for is [`KernelCompileError::Shared`].
    pub fn compile_shared(&self, source: &KernelSource, target: &Target) -> Result<Arc<[u8]>, KernelCompileError> {
        let Some(attempts) = self.attempts() else {
            self.runs.fetch_add(1, Ordering::Relaxed);
            return self.compiler.compile(source, target).map(Arc::from);
        };
        let mine = loop {
            let kernel = blake3::Hasher::new().update(source.name.as_bytes()).update(&[0]).update(source.text.as_bytes()).finalize();
            let key = (kernel, target.clone());
            let theirs = match lock(attempts).entry(key) {
                Entry::Occupied(entry) => entry.get().clone(),
                Entry::Vacant(entry) => {
                    let (key, attempt) = (entry.key().clone(), Arc::<Attempt>::default());
                    entry.insert(attempt.clone());
                    break Mine { attempts, key: Some(key), attempt };
                }
            };
            if let Some(result) = theirs.wait() {
                self.hits.fetch_add(1, Ordering::Relaxed);
                return result.map_err(KernelCompileError::Shared);
            }
        };
        self.runs.fetch_add(1, Ordering::Relaxed);
        match self.compiler.compile(source, target) {
            Ok(object) => {
                let object: Arc<[u8]> = object.into();
                mine.keep(object.clone());
                Ok(object)
            }
            Err(error) => {
                let error = Arc::new(error);
                mine.forget(error.clone());
                Err(Arc::try_unwrap(error).unwrap_or_else(KernelCompileError::Shared))
            }
        }
    }
}

impl<C: KernelCompiler> fmt::Debug for CachedCompiler<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("CachedCompiler");
        f.field("compiler", &self.compiler.identity()).field("runs", &self.runs()).field("hits", &self.hits()).finish()
    }
}

impl<C: KernelCompiler> KernelCompiler for CachedCompiler<C> {
    fn identity(&self) -> String {
        self.compiler.identity()
    }

    fn revision(&self) -> String {
        self.compiler.revision()
    }

    fn supports(&self, target: &Target) -> Result<(), String> {
        self.compiler.supports(target)
    }

    fn compile(&self, source: &KernelSource, target: &Target) -> Result<Vec<u8>, KernelCompileError> {
        self.compile_shared(source, target).map(|object| object.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl KernelCompiler for Echo {
        fn identity(&self) -> String {
            "echo".to_owned()
        }

        fn revision(&self) -> String {
            self.identity()
        }

        fn supports(&self, _: &Target) -> Result<(), String> {
            Ok(())
        }

        fn compile(&self, source: &KernelSource, _: &Target) -> Result<Vec<u8>, KernelCompileError> {
            Ok(source.text.clone().into_bytes())
        }
    }

    #[test]
    fn the_child_of_a_fork_waits_for_no_thread_of_its_parent() {
        let mut cache = CachedCompiler::new(Echo);
        // As a child finds it: another process made it, and a thread had its locks.
        let of_another = |n| OnceLock::from((std::process::id().wrapping_add(n), Attempts::default()));
        cache.attempts = [of_another(1), OnceLock::new()];
        let _held = cache.attempts[0].get().map(|(_, attempts)| lock(attempts));
        let source = KernelSource { name: "k".to_owned(), text: "text".to_owned(), kernarg_size: 8, block: 64 };
        for hits in 0..2 {
            assert_eq!(&*cache.compile_shared(&source, &Target::Cpu).unwrap(), b"text");
            assert_eq!((cache.runs(), cache.hits()), (1, hits));
        }
        // As a child of the child finds it.
        let mut cache = CachedCompiler::new(Echo);
        cache.attempts = [of_another(1), of_another(2)];
        let _held = cache.attempts[1].get().map(|(_, attempts)| lock(attempts));
        for runs in 1..3 {
            assert_eq!(&*cache.compile_shared(&source, &Target::Cpu).unwrap(), b"text");
            assert_eq!((cache.runs(), cache.hits()), (runs, 0));
        }
    }
}
