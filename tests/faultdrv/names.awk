# SPDX-License-Identifier: Apache-2.0
# The names of a driver, to entries that keep every argument: integers, the first
# floating-point ones, and those on the stack.
BEGIN {
    print ".text"
    print "faultdrv_entry:"
    print "push %rdi; push %rsi; push %rdx; push %rcx; push %r8; push %r9"
    print "sub $24, %rsp; movsd %xmm0, (%rsp); movsd %xmm1, 8(%rsp)"
    print "mov %eax, %edi; call faultdrv_pick@PLT"
    print "movsd (%rsp), %xmm0; movsd 8(%rsp), %xmm1; add $24, %rsp"
    print "pop %r9; pop %r8; pop %rcx; pop %rdx; pop %rsi; pop %rdi"
    print "jmp *%rax"
}
/^cu/ {
    printf ".globl %s; .type %s, @function\n%s: mov $%d, %%eax; jmp faultdrv_entry\n", $1, $1, $1, n
    names[n++] = $1
}
END {
    print ".section .data.rel.ro, \"aw\"; .globl faultdrv_names; .hidden faultdrv_names; .balign 8"
    print "faultdrv_names:"
    for (i = 0; i < n; i++) {
        printf ".quad 9000f + %d\n", at
        at += length(names[i]) + 1
    }
    print ".quad 0"
    print ".section .rodata"
    print "9000:"
    for (i = 0; i < n; i++)
        printf ".asciz \"%s\"\n", names[i]
    print ".section .note.GNU-stack, \"\", @progbits"
}
