// The bytes of the module that reads Parquet (arrow_module.cpp), as a part of
// the program: wherever that is copied or installed, it has them.

asm(R"(
  .pushsection .rodata.troupe_parquet, "a"
  .balign 16
  .global troupe_parquet_image
  .global troupe_parquet_image_end
troupe_parquet_image:
  .incbin ")" TROUPE_PARQUET_MODULE R"("
troupe_parquet_image_end:
  .byte 0
  .popsection
)");
