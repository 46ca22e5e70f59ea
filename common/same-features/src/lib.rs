//! Nothing but dependencies: see `Cargo.toml`. Cargo builds what a command selects with the features that the selected crates ask
//! for, so `cargo test -p phase1-infra` after `cargo test --workspace` would build again what other crates want more of.
//! `tests/same.rs` compares.
