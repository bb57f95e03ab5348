#pragma once

/// Declares the getter name() and the chained setter name(value) of an option of the class Self that is
/// stored in `member`.
#define STIEFEL_ARG(Self, type, name, member) \
  type name() const { return member; }        \
  Self& name(type value) {                    \
    member = value;                           \
    return *this;                             \
  }
