//! Handles and contexts as the host holds them: boxes that begin with a word that says what they are.
//!
//! A pointer to something else that can be read is refused. One that was destroyed is refused as long as its memory is not used again,
//! which cannot be relied on: the use of what was destroyed is the host's mistake, and not caught.

use crate::failure::Failure;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a host holds a pointer to.
pub(crate) trait Kind {
    /// First word of such an object.
    const WORD: u64;
    /// For messages.
    const NAME: &'static str;
}

/// The word of an object that was destroyed.
const GONE: u64 = 0;

/// An object on the heap.
#[repr(C)]
struct Object<T> {
    word: AtomicU64,
    value: T,
}

/// Puts an object on the heap, for a host to hold.
pub(crate) fn create<T: Kind, P>(value: T) -> *mut P {
    Box::into_raw(Box::new(Object { word: AtomicU64::new(T::WORD), value })).cast()
}

/// The object that a pointer points to.
///
/// # Safety
/// The pointer is null or [`create`] gave it for the same `T`, and the object is not destroyed during `'a`; or it points to 8 bytes of
/// something else that can be read.
#[inline]
pub(crate) unsafe fn borrow<'a, T: Kind, P>(pointer: *mut P) -> Result<&'a T, Failure> {
    let object = check::<T, P>(pointer)?;
    // SAFETY: by the caller's promise; only the word is looked at.
    let word = unsafe { &(*object).word };
    if word.load(Ordering::Acquire) != T::WORD {
        return Err(wrong::<T>(pointer.addr()));
    }
    // SAFETY: the word says that `create` made it, by the caller's promise for this `T`.
    Ok(unsafe { &(*object).value })
}

/// Destroys an object.
///
/// # Safety
/// As of [`borrow`], and nothing uses the object.
pub(crate) unsafe fn destroy<T: Kind, P>(pointer: *mut P) -> Result<(), Failure> {
    let object = check::<T, P>(pointer)?;
    // SAFETY: by the caller's promise; only the word is looked at.
    let word = unsafe { &(*object).word };
    if word.compare_exchange(T::WORD, GONE, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return Err(wrong::<T>(pointer.addr()));
    }
    // SAFETY: `create` made it, and the word was there, so that it is destroyed for the first time.
    drop(unsafe { Box::from_raw(object) });
    Ok(())
}

fn check<T: Kind, P>(pointer: *mut P) -> Result<*mut Object<T>, Failure> {
    let object = pointer.cast::<Object<T>>();
    if object.is_null() {
        return Err(Failure::bad_param(format!("the {} is null", T::NAME)));
    }
    if object.is_aligned() { Ok(object) } else { Err(wrong::<T>(pointer.addr())) }
}

#[cold]
fn wrong<T: Kind>(address: usize) -> Failure {
    Failure::bad_param(format!("{address:#x} is no {} of this plugin, or was destroyed", T::NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(u32);
    struct Two;

    impl Kind for One {
        const WORD: u64 = 1;
        const NAME: &'static str = "one";
    }
    impl Kind for Two {
        const WORD: u64 = 2;
        const NAME: &'static str = "two";
    }

    #[test]
    fn an_object_is_what_its_word_says() {
        let one: *mut u8 = create(One(7));
        // SAFETY: it lives until it is destroyed below, and what is tried before has 8 bytes.
        unsafe {
            assert_eq!(borrow::<One, _>(one).expect("one").0, 7);
            assert!(borrow::<Two, _>(one).is_err_and(|e| e.text.contains("no two")));
            assert!(destroy::<Two, _>(one).is_err());
            assert!(borrow::<One, u8>(std::ptr::null_mut()).is_err_and(|e| e.text == "the one is null"));
            assert!(borrow::<One, u8>(one.wrapping_add(1)).is_err());
            let mut other = [9_u64; 4];
            assert!(borrow::<One, _>(&raw mut other).is_err() && destroy::<One, _>(&raw mut other).is_err());
            destroy::<One, _>(one).expect("destroyed");
        }
    }
}
