# Sets `literals` to C++ raw string literals that together are the text of `file`. One string literal
# may hold 64 KiB portably, so a longer text becomes several adjacent ones.
function(pitcrew_embed_text literals file delimiter)
  file(READ ${file} content)
  string(LENGTH "${content}" length)
  set(code "")
  set(offset 0)
  while(offset LESS length)
    string(SUBSTRING "${content}" ${offset} 16000 piece)
    string(APPEND code "R\"${delimiter}(${piece})${delimiter}\" ")
    math(EXPR offset "${offset} + 16000")
  endwhile()
  set(${literals} "${code}" PARENT_SCOPE)
endfunction()
