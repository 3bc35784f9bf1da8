//! Lines in the operation's log. Bounded in count and size by the host, and scanned for secrets.

pub use crate::bindings::holdfast::provider::log::Level;

/// Writes one line. The macros [`info!`](crate::info) and its sisters are the usual way.
pub fn write(level: Level, message: &str, fields: &[(&str, String)]) {
    #[cfg(target_arch = "wasm32")]
    {
        let fields: Vec<(String, String)> =
            fields.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        crate::bindings::holdfast::provider::log::write(level, message, &fields);
    }
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::wire::log(level, message, fields);
}

/// Writes a line at a level: `log!(Level::Info, "made {}", id; zone = zone)`.
#[macro_export]
macro_rules! log {
    ($level:expr, $format:literal $(, $arg:expr)* $(; $($name:ident = $value:expr),+ $(,)?)?) => {
        $crate::log::write(
            $level,
            &::std::format!($format $(, $arg)*),
            &[$($((::std::stringify!($name), ::std::string::ToString::to_string(&$value))),+)?],
        )
    };
}

/// A line at level debug.
#[macro_export]
macro_rules! debug {
    ($($all:tt)*) => { $crate::log!($crate::log::Level::Debug, $($all)*) };
}

/// A line at level info: `info!("rebooting {id}"; zone = zone)`.
#[macro_export]
macro_rules! info {
    ($($all:tt)*) => { $crate::log!($crate::log::Level::Info, $($all)*) };
}

/// A line at level warn.
#[macro_export]
macro_rules! warn {
    ($($all:tt)*) => { $crate::log!($crate::log::Level::Warn, $($all)*) };
}

/// A line at level error.
#[macro_export]
macro_rules! error {
    ($($all:tt)*) => { $crate::log!($crate::log::Level::Error, $($all)*) };
}
