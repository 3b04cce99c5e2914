//! Whether the process runs with rights that its caller does not have.

/// The environment is another user's to set: what is loaded from where it says would run with this process's rights (setuid programs, and
/// those with capabilities).
pub(super) fn is_secure_execution() -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the call takes any number and reads what the kernel gave the process.
        unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
    }
    #[cfg(all(unix, not(target_os = "linux")))]
    {
        // SAFETY: the calls have no requirements.
        unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() }
    }
    #[cfg(not(unix))]
    false
}

#[cfg(test)]
mod tests {
    #[test]
    fn tests_run_with_their_callers_rights() {
        assert!(!super::is_secure_execution());
    }
}
