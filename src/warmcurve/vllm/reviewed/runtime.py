"""The review of what a model runs in: the engine, the ranks, the KV cache, the scheduler, observability."""

from typing import Final

from warmcurve.vllm.reviewed.review import Kind, leave, section

RUNTIME: Final = (
    section(
        "VllmConfig",
        "each section counts by its own review",
        """
        model_config cache_config parallel_config scheduler_config device_config load_config offload_config
        attention_config mamba_config kernel_config lora_config speculative_config diffusion_config
        observability_config compilation_config profiler_config kv_transfer_config ec_transfer_config
        reasoning_config additional_config optimization_level performance_mode engram_config watermark_config
        aux_output_config
        """,
        leave(Kind.NAME, "drawn anew at each boot", "instance_id"),
        leave(Kind.ELSEWHERE, "made from the model's files and quantization_config; what it chose is in target.modules",
              "quant_config"),
        leave(Kind.FRONT_END, "no dummy run is held to a grammar", "structured_outputs_config"),
        leave(Kind.LOGGING, "vLLM's own log", "logging_config"),
        leave(Kind.LOGGING, "tells others what the prefix cache holds", "kv_events_config"),
        leave(Kind.SCHEDULING, "which encoder outputs are kept", "ec_manager_config"),
        leave(Kind.SCHEDULING, "what the prefix cache finds", "num_hash_lookahead_tokens"),
        leave(Kind.LIFE_CYCLE, "how new weights come in, when a hung engine is reported, how long it may take to end",
              "weight_transfer_config watchdog_config shutdown_timeout"),
    ),
    section(
        "CacheConfig",
        "the layout and the types of the KV cache that attention reads",
        """
        block_size kv_cache_layout cache_dtype is_attention_free sliding_window enable_prefix_caching
        kv_cache_dtype_skip_layers mamba_page_size_padded skip_page_size_padded mamba_block_size mamba_cache_dtype
        mamba_ssm_cache_dtype mamba_cache_mode replayssm_buffer_len use_replayssm use_kda_recoverssm
        kv_sharing_fast_prefill kv_offloading_size kv_offloading_backend enable_mamba_fine_grained_prefix_cache
        enable_mamba_shared_prefix_checkpoint swa_bounded_replay enable_extensible_kv_cache
        """,
        leave(Kind.ELSEWHERE, "the pool varies in size from boot to boot; how dummy contexts share it is kv.sharing",
              """gpu_memory_utilization num_gpu_blocks_override kv_cache_memory_bytes num_gpu_blocks num_cpu_blocks
              simple_cpu_offload_num_blocks kv_cache_size_tokens kv_cache_max_concurrency"""),
        leave(Kind.SCHEDULING, "what the prefix cache finds",
              """prefix_match_unit prefix_caching_hash_algo prefix_cache_retention_interval hash_block_size
              cache_hit_alignment_tokens"""),
        leave(Kind.DERIVED, "from block sizes that count",
              """user_specified_block_size user_specified_mamba_block_size effective_attention_block_size
              _block_size_resolved"""),
        leave(Kind.DERIVED, "whether a setting that counts was settled", "_extensible_kv_cache_resolved"),
    ),
    section(
        "ParallelConfig",
        "how a step is split over ranks, and how they talk",
        """
        pipeline_parallel_size tensor_parallel_size prefill_context_parallel_size data_parallel_size
        data_parallel_backend is_moe_model enable_expert_parallel enable_batch_sharded_sampling enable_eplb
        eplb_config expert_placement_strategy all2all_backend disable_custom_all_reduce enable_elastic_ep
        elastic_ep_max_dp_size enable_dbo ubatch_size dbo_decode_token_threshold dbo_prefill_token_threshold
        disable_nccl_for_dp_synchronization dp_sync_interval ray_workers_use_nsight distributed_executor_backend
        worker_cls sd_worker_cls worker_extension_cls nnodes numa_bind world_size decode_context_parallel_size
        dcp_kv_cache_interleave_size dcp_comm_backend dcp_q_replicate cp_kv_cache_interleave_size
        enable_fault_tolerance enable_hc_sp enable_shm_tensor_arena mori_ep_v2 _numa_bind_auto
        """,
        leave(Kind.RANK, "which rank, replica, node or server process this is",
              "data_parallel_rank data_parallel_rank_local data_parallel_index node_rank rank _api_process_rank"),
        leave(Kind.RANK, "nodes may hold different numbers of replicas; placement tells how many nodes there are",
              "data_parallel_size_local"),
        leave(Kind.ADDRESS, "where ranks meet",
              """data_parallel_master_ip data_parallel_rpc_port data_parallel_master_port master_addr master_port
              _data_parallel_master_port_list _coord_store_port"""),
        leave(Kind.DEVICE_CHOICE, "one entry for each device of a node",
              "assigned_physical_gpu_ids numa_bind_nodes numa_bind_cpus"),
        leave(Kind.FRONT_END, "who spreads requests over replicas, and how many server processes there are",
              "data_parallel_external_lb data_parallel_hybrid_lb _api_process_count"),
        leave(Kind.NAME, "Ray's own objects", "placement_group"),
        leave(Kind.ELSEWHERE, "what it sets is read where it arrives: the environment, the packages",
              "ray_runtime_env"),
        leave(Kind.LIFE_CYCLE, "how weights are read",
              "max_parallel_loading_workers enable_ep_weight_filter"),
        leave(Kind.LIFE_CYCLE, "how long others are waited for",
              "distributed_timeout_seconds cpu_distributed_timeout_seconds fault_tolerance_config"),
        leave(Kind.DERIVED, "whether a size that counts may still be resolved",
              "_allow_auto_resolve_cp_interleave_size"),
    ),
    section("EPLBConfig", "copies of experts, and what balancing them adds to a step",
            """window_size step_interval num_redundant_experts log_balancedness log_balancedness_interval use_async
            policy communicator enable_migration_batching"""),
    section(
        "SchedulerConfig",
        "the largest batch, where the eager tail ends, how the cache is grouped",
        """
        runner_type max_num_batched_tokens max_num_scheduled_tokens max_num_seqs max_num_active_seqs
        enable_chunked_prefill is_multimodal_model max_num_encoder_input_tokens encoder_cache_size
        disable_hybrid_kv_cache_manager async_scheduling
        """,
        leave(Kind.SCHEDULING, "which requests come next, and how much of each",
              """policy scheduler_cls long_prefill_token_threshold long_prefill_token_threshold_adaptive
              disable_chunked_mm_input scheduler_reserve_full_isl watermark prefill_schedule_interval
              cache_aware_admission_threshold cache_aware_admission_window max_num_inflight_kv_loads"""),
        leave(Kind.FRONT_END, "how many requests may wait, and how often a client hears of one",
              "max_num_queued_reqs max_num_queued_tokens stream_interval"),
    ),
    section("DeviceConfig", "the kind of device", "device_type",
            leave(Kind.ELSEWHERE, "which device it is; what it is stands under device", "device")),
    section("AuxOutputConfig", "copies of what a step computed on the way", "enable_return_routed_experts max_bytes"),
    section(
        "KVTransferConfig",
        "a connector's work inside every step",
        """
        kv_connector kv_buffer_device kv_buffer_size kv_role kv_parallel_size kv_connector_extra_config
        kv_connector_module_path enable_permute_local_kv
        """,
        leave(Kind.NAME, "drawn anew at each boot", "engine_id"),
        leave(Kind.RANK, "which of several instances this is", "kv_rank"),
        leave(Kind.ADDRESS, "where instances meet", "kv_ip kv_port"),
        leave(Kind.SCHEDULING, "what becomes of a request whose blocks did not come", "kv_load_failure_policy"),
    ),
    section(
        "ECTransferConfig",
        "a connector's work around every step",
        """
        ec_connector ec_buffer_device ec_buffer_size ec_role ec_parallel_size ec_connector_extra_config
        ec_connector_module_path mm_encoder_output_widths
        """,
        leave(Kind.NAME, "drawn anew at each boot", "engine_id"),
        leave(Kind.RANK, "which of several instances this is", "ec_rank"),
        leave(Kind.ADDRESS, "where instances meet", "ec_ip ec_port"),
    ),
    section(
        "ObservabilityConfig",
        "what is recorded inside a step",
        """
        collect_detailed_traces per_request_spec_decode_metrics cudagraph_metrics enable_layerwise_nvtx_tracing
        """,
        leave(Kind.LOGGING, "metrics and their names, made from what a step left",
              """show_hidden_metrics_for_version kv_cache_metrics kv_cache_metrics_sample enable_mfu_metrics
              enable_logging_iteration_details custom_histogram_buckets enable_mm_processor_stats"""),
        leave(Kind.LOGGING, "begins when the engine has warmed up", "jit_monitor_mode jit_monitor_verbose"),
        leave(Kind.ADDRESS, "where traces of requests are sent", "otlp_traces_endpoint"),
    ),
    section(
        "ProfilerConfig",
        "a profiler that is attached, or records captures, slows a step",
        """
        profiler proton_context proton_data proton_backend proton_mode proton_hook proton_graph_attribution
        torch_profiler_activities torch_profiler_with_stack torch_profiler_with_flops torch_profiler_record_shapes
        torch_profiler_with_memory capture_torch_profiler detailed_trace_annotation ignore_frontend
        delay_iterations max_iterations warmup_iterations active_iterations wait_iterations
        """,
        leave(Kind.PATH, "where traces are written", "torch_profiler_dir proton_profiler_dir"),
        leave(Kind.LOGGING, "how traces are written, once they are taken",
              "torch_profiler_use_gzip torch_profiler_dump_cuda_time_total proton_output_format"),
    ),
)  # fmt: skip
