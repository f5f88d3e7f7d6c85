# SPDX-License-Identifier: Apache-2.0
# Users of libptx.a link -lzstd -llz4.
# From image bytes to a checked syntax tree: containers, lexer, parser.
PTX_SRCS := softgpu/ptx/ptx_arena.c softgpu/ptx/ptx_names.c softgpu/ptx/ptx_lex.c \
    softgpu/ptx/ptx_scope.c softgpu/ptx/ptx_expr.c softgpu/ptx/ptx_decl.c \
    softgpu/ptx/ptx_init.c softgpu/ptx/ptx_opd.c softgpu/ptx/ptx_body.c \
    softgpu/ptx/ptx_func.c softgpu/ptx/ptx_parse.c softgpu/ptx/ptx_module.c \
    softgpu/ptx/ptx_link.c softgpu/ptx/sg_image.c

$(eval $(call static_lib,ptx,$(PTX_SRCS),common softgpu/ptx))
