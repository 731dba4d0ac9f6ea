# Writes TARGET, a C++ file with a number that is the same for two builds of the same sources and, but for chance,
# differs for others: cmake -DROOT=collective_core -DTARGET=source_digest.cc -P source_digest.cmake
file(GLOB_RECURSE sources RELATIVE ${ROOT} ${ROOT}/include/*.h ${ROOT}/src/*.cc ${ROOT}/src/*.h ${ROOT}/src/*.inc)
list(SORT sources)
set(digests)
foreach(source IN LISTS sources)
  file(SHA256 ${ROOT}/${source} digest)
  string(APPEND digests "${digest}  ${source}\n")
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 16 digest)
file(WRITE ${TARGET} "#include \"common/source_digest.h\"\n\nconst uint64_t ccore::kSourceDigest = 0x${digest};\n")
