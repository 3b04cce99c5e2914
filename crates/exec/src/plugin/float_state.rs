//! The floating-point state of a thread, kept from plugins: one that was built for speed switches denormal numbers off when it is loaded, or
//! another rounding on, and every kernel of this process would compute something else from then on.

/// The control bits of a thread's floating-point unit, put back when this goes.
#[must_use]
pub(super) struct FloatState(Control);

impl FloatState {
    /// Notes the bits as they are.
    #[inline]
    pub(super) fn keep() -> Self {
        Self(Control::read())
    }
}

impl Drop for FloatState {
    #[inline]
    fn drop(&mut self) {
        if Control::read() != self.0 {
            self.0.write();
        }
    }
}

#[cfg(target_arch = "x86_64")]
use x86_64::Control;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;

    /// Rounding, exception masks and the treatment of denormal numbers; not the flags that say what has happened.
    const MXCSR_CONTROL: u32 = 0xffc0;

    /// MXCSR, for SSE and AVX, and the control word of the x87.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Control {
        mxcsr: u32,
        x87: u16,
    }

    impl Control {
        #[inline]
        pub(super) fn read() -> Self {
            let (mut mxcsr, mut x87) = (0_u32, 0_u16);
            // SAFETY: the instructions store 4 and 2 bytes to these variables, and change nothing else.
            unsafe {
                asm!("stmxcsr dword ptr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags));
                asm!("fnstcw word ptr [{}]", in(reg) &raw mut x87, options(nostack, preserves_flags));
            }
            Self { mxcsr: mxcsr & MXCSR_CONTROL, x87 }
        }

        #[cold]
        pub(super) fn write(self) {
            // SAFETY: the values were read from these registers before, so that no reserved bit is set; with them, compiled code computes
            // as it did before the call between.
            unsafe {
                asm!("ldmxcsr dword ptr [{}]", in(reg) &raw const self.mxcsr, options(nostack, readonly, preserves_flags));
                asm!("fldcw word ptr [{}]", in(reg) &raw const self.x87, options(nostack, readonly, preserves_flags));
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
use aarch64::Control;

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::asm;

    /// FPCR.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Control(u64);

    impl Control {
        #[inline]
        pub(super) fn read() -> Self {
            let fpcr;
            // SAFETY: the register is read, and nothing changed.
            unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
            Self(fpcr)
        }

        #[cold]
        pub(super) fn write(self) {
            // SAFETY: the value was read from the register before.
            unsafe { asm!("msr fpcr, {}", in(reg) self.0, options(nomem, nostack, preserves_flags)) };
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use elsewhere::Control;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod elsewhere {
    /// Nothing is known of the machine.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct Control;

    impl Control {
        pub(super) fn read() -> Self {
            Self
        }

        pub(super) fn write(self) {}
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn denormal_numbers_are_as_before() {
        let half_of_least = || black_box(f32::MIN_POSITIVE) * black_box(0.5);
        assert_ne!(half_of_least(), 0.0);
        {
            let _state = FloatState::keep();
            // Flush to zero, denormals are zero, all exceptions masked.
            let flushing = 0x9fc0_u32;
            // SAFETY: a value without reserved bits; it is put back below, and nothing is computed meanwhile but what is looked at.
            unsafe { std::arch::asm!("ldmxcsr dword ptr [{}]", in(reg) &raw const flushing, options(nostack, readonly, preserves_flags)) };
            assert_eq!(half_of_least(), 0.0);
        }
        assert_ne!(half_of_least(), 0.0);
    }
}
