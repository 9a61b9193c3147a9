//! Status words: one table makes the code, and the text, of each.

use std::ffi::CStr;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// Why a call failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Status { $($(#[$doc])* $name,)* }

        impl Status {
            /// The number that C sees.
            pub const fn code(self) -> i32 {
                match self { $(Status::$name => $code,)* }
            }

            /// The text for a number that C may hold.
            pub fn text(code: i32) -> &'static CStr {
                match code {
                    0 => c"ok",
                    1 => c"not now, try again after news",
                    2 => c"done",
                    $($code => $text,)*
                    _ => c"unknown status",
                }
            }
        }
    };
}

statuses! {
    /// An argument is wrong.
    Invalid = -1, c"invalid argument";
    /// The call does not fit what happened before.
    State = -2, c"call out of order, or in a child of fork";
    /// Memory could not be had.
    NoMemory = -3, c"out of memory";
    /// The engine is at its memory limit.
    Limit = -4, c"engine at its memory limit";
    /// This build lacks the codec or feature.
    Unsupported = -5, c"not supported by this build";
    /// The compression library reported an error.
    Codec = -6, c"error in the compression library";
    /// A panic was caught.
    Panic = -7, c"internal fault, caught";
    /// The engine is shut down.
    Shutdown = -8, c"engine shut down";
    /// More work is queued than the engine may let wait.
    Overload = -9, c"engine overloaded";
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Status::text(self.code()).to_str().unwrap_or_default())
    }
}

impl std::error::Error for Status {}
