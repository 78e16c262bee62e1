"""The review of how a model is computed: attention, linear layers, graphs, the compiler, offloading."""

from typing import Final

from warmcurve.vllm.reviewed.review import Kind, leave, section

KERNELS: Final = (
    section(
        "AttentionConfig",
        "which attention kernels run, on what types, in how many parts",
        """
        backend minimax_m3_msa_decode_backend backend_per_kind flash_attn_version
        flash_attn_max_num_splits_for_cuda_graph tq_max_kv_splits_for_cuda_graph use_trtllm_attention
        disable_flashinfer_q_quantization mla_prefill_backend use_prefill_query_quantization use_fp4_indexer_cache
        indexer_kv_dtype use_non_causal sparse_mla_force_mqa flex_attn_block_m flex_attn_block_n
        flex_attn_q_block_size flex_attn_kv_block_size hisparse_config indexer_sparse_logits
        tokenspeed_mla_min_split_kv sparse_mla_prefill_workspace_factor trtllm_ragged_backend
        indexer_tp_shard_min_rows minimax_m3_indexer_cp indexer_decode_cp indexer_logits_dtype sparse_mla_shard_q
        sparse_mla_shard_q_min_tokens
        """,
    ),
    section("HiSparseConfig", "how much of the KV cache is kept on the host", "device_buffer_size eager_host_mirror"),
    section("MambaConfig", "which state-space kernels run, and how they round",
            "backend enable_stochastic_rounding stochastic_rounding_philox_rounds ssu_algorithm"),
    section(
        "KernelConfig",
        "which linear, expert and indexing kernels run, and whether they are tuned and compiled beforehand",
        """
        ir_op_priority enable_flashinfer_autotune enable_cutedsl_warmup enable_jit_warmup enable_bf16x3_router_gemm
        moe_backend linear_backend sparse_indexer_topk_backend linear_backend_per_quant
        enable_rocm_segmented_attn_autotune monokernel enable_rocm_aiter_gemm_warmup
        rdna_hybrid_w4a16_prefill_dequant
        """,
    ),
    section("IrOpPriorityConfig", "which implementation of an operation is taken first",
            "rms_norm fused_add_rms_norm gelu_and_mul_sparse"),
    section(
        "CompilationConfig",
        "how the model is compiled, and which batches replay a graph",
        """
        mode backend custom_ops ir_enable_torch_wrap splitting_ops compile_sizes compile_ranges_endpoints
        inductor_compile_config inductor_passes cudagraph_mode cudagraph_num_of_warmups cudagraph_capture_sizes
        cudagraph_copy_inputs cudagraph_specialize_lora use_inductor_graph_partition pass_config
        max_cudagraph_capture_size dynamic_shapes_config fast_moe_cold_start cudagraph_decoder_replay
        decoder_replay_cudagraph_capture_sizes decoder_replay_trim_threshold use_breakable_cudagraph
        decode_cudagraph_capture_request_sizes max_decode_cudagraph_capture_requests
        max_decode_cudagraph_capture_tokens prefill_cudagraph_capture_token_sizes
        max_prefill_cudagraph_capture_tokens
        """,
        leave(Kind.PATH, "where compiled code and dumps lie", "debug_dump_path cache_dir local_cache_dir"),
        leave(Kind.LIFE_CYCLE, "in which form compiled code is kept", "compile_cache_save_format"),
        leave(Kind.OTHER_WORK, "dummy runs of the calibration encode nothing",
              """compile_mm_encoder cudagraph_mm_encoder encoder_cudagraph_token_budgets
              encoder_cudagraph_max_vision_items_per_batch encoder_cudagraph_max_frames_per_batch
              encoder_cudagraph_max_token_budget"""),
        leave(Kind.DERIVED, "counted while layers are made, of custom_ops and the model",
              "enabled_custom_ops disabled_custom_ops"),
        leave(Kind.DERIVED, "the layers themselves and the source files they were traced from",
              "static_forward_context static_all_moe_layers traced_files"),
        leave(Kind.DERIVED, "measured on the way", "compilation_time encoder_compilation_time"),
    ),
    section(
        "PassConfig",
        "which operations the compiler fuses",
        """
        fuse_norm_quant fuse_act_quant fuse_attn_quant eliminate_noops enable_sp fuse_gemm_comms fuse_allreduce_rms
        enable_qk_norm_rope_fusion fuse_rope_kvcache_cat_mla fuse_act_padding fuse_mla_dual_rms_norm
        fuse_rope_kvcache fuse_qk_norm_rope_kvcache rope_kvcache_fusion_max_token_num
        fi_allreduce_fusion_max_size_mb sp_min_token_num
        """,
    ),
    section("DynamicShapesConfig", "what compiled code assumes of shapes",
            "type evaluate_guards assume_32_bit_indexing"),
    section("OffloadConfig", "weights that are read over the bus", "offload_backend uva prefetch"),
    section("UVAOffloadConfig", "weights that are read over the bus in place", "cpu_offload_gb cpu_offload_params"),
    section("PrefetchOffloadConfig", "weights that are fetched ahead of their layer",
            "offload_group_size offload_num_in_group offload_prefetch_step offload_params"),
)  # fmt: skip
