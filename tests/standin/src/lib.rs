//! A stand-in for the model APIs.
