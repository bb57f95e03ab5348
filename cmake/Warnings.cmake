# Warnings for our own targets; what LibTorch's headers say is not ours to mend.
function(stiefel_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow=local -Wnon-virtual-dtor
    $<$<BOOL:${STIEFEL_WERROR}>:-Werror>)
endfunction()
