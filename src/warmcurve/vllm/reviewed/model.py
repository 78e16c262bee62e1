"""The review of what is run: the model, its drafter, its adapters, its weights."""

from typing import Final

from warmcurve.vllm.reviewed.review import Kind, leave, section

MODEL: Final = (
    section(
        "ModelConfig",
        "how a model's files become layers, and what of a step is computed besides them",
        """
        runner convert trust_remote_code dtype word_embeddings_untied_by_checkpoint code_revision
        max_model_len spec_target_max_model_len quantization quantization_config enforce_eager
        enable_return_routed_experts return_sampling_mask max_logprobs logprobs_mode use_fp64_gumbel
        enable_trace_replay disable_sliding_window disable_cascade_attn enable_prompt_embeds config_format
        hf_overrides model_class_overrides enable_sleep_mode sleep_mode_backend sleep_mode_offload_cudagraph
        enable_nccl_comm_suspend enable_cumem_allocator model_impl logits_processors multimodal_config
        is_submodel_config
        """,
        leave(Kind.CONTENT, "the same files cost the same under another path, name or revision",
              "model model_weights revision hf_config_path"),
        leave(Kind.CONTENT, "made from the model's own file and from the overrides, which count",
              "hf_config hf_text_config"),
        leave(Kind.SEED, "the values of sampled tokens, not their cost", "seed"),
        leave(Kind.SECRET, "opens the hub", "hf_token"),
        leave(Kind.NAME, "what clients call the model", "served_model_name"),
        leave(Kind.FRONT_END, "text becomes tokens before a step",
              "tokenizer tokenizer_mode tokenizer_revision skip_tokenizer_init"),
        leave(Kind.FRONT_END, "requests' media and their processing",
              "allowed_local_media_path allowed_media_domains io_processor_plugin renderer_num_workers"),
        leave(Kind.FRONT_END, "the defaults of requests' sampling parameters; a dummy run brings its own. What a model "
              "reads there of its attention stands in target.modules",
              "generation_config override_generation_config"),
        leave(Kind.OTHER_WORK, "a pooling model drafts nothing", "pooler_config"),
        leave(Kind.LIFE_CYCLE, "whether an old form of quantisation is admitted", "allow_deprecated_quantization"),
        leave(Kind.LIFE_CYCLE, "what a sleeping engine keeps", "sleep_preserve_parameter_names"),
        leave(Kind.LIFE_CYCLE, "what becomes of an engine once it has started", "checkpoint_prepare_on_startup"),
    ),
    section(
        "MultiModalConfig",
        "whether a step takes embeddings instead of token ids",
        """
        language_model_only limit_per_prompt enable_mm_embeds mm_encoder_only video_pruning_rate video_pruning_method
        """,
        leave(Kind.FRONT_END, "media are decoded, hashed and cached before a step",
              """media_io_kwargs mm_processor_kwargs mm_device_do_normalize mm_processor_cache_gb
              mm_processor_cache_type mm_hasher_algorithm mm_shm_cache_max_object_size_mb interleave_mm_strings
              mm_tensor_ipc allow_missing_mm_embeddings mm_ipc_gpu_memory_gb"""),
        leave(Kind.OTHER_WORK, "dummy runs of the calibration encode nothing",
              "mm_encoder_tp_mode mm_encoder_attn_backend mm_encoder_attn_dtype skip_mm_profiling"),
        leave(Kind.PATH, "scales of the encoder",
              "mm_encoder_fp8_scale_path mm_encoder_fp8_scale_save_path mm_encoder_fp8_scale_save_margin"),
    ),
    section("QuantizationConfigArgs", "which layers are quantised while they are loaded, and how",
            "linear moe ignore targets"),
    section("QuantSpec", "the types of weights and activations, and what is done to them before",
            "weight activation hadamard_size fields_set"),
    section(
        "SpeculativeConfig",
        "what is drafted, how much, and how it is verified; most of it is not in vLLM's own hash",
        """
        enforce_eager num_speculative_tokens method draft_tensor_parallel_size tensor_parallel_size quantization
        moe_backend attention_backend kv_cache_dtype max_model_len index_share_for_mtp_iteration
        disable_padded_drafter_batch disable_eagle_block_drop disable_lookahead_block_hashes
        use_local_argmax_reduction use_heterogeneous_vocab prompt_lookup_max prompt_lookup_min parallel_drafting
        num_speculative_tokens_per_batch_size draft_model_config draft_parallel_config draft_load_config
        suffix_decoding_max_tree_depth suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor
        suffix_decoding_min_token_prob rejection_sample_method synthetic_acceptance_rates
        synthetic_acceptance_length enable_adaptive_verification draft_sample_method dspark_draft_topk
        draft_lm_head_quantization xpress_topc fly_window_size fly_entropy_threshold fly_entropy_top_k custom_method
        speculator_options draft_decode_context_parallel_size suffix_decoding_corpus_tokens
        """,
        leave(Kind.CONTENT, "the same files cost the same under another path, name or revision", "model revision"),
        leave(Kind.ELSEWHERE, "handed on to draft_model_config, where it counts", "code_revision"),
        leave(Kind.ELSEWHERE, "the target's own sections", "target_model_config target_parallel_config"),
    ),
    section("WatermarkConfig", "random numbers drawn from the context, for every sampled and drafted token",
            """algorithm alpha context_width deduplicate_contexts deduplicate_contexts_max_history prf
            allow_target_only_watermarking enforce""",
            leave(Kind.SECRET, "its value changes no kernel", "key")),
    section("DiffusionConfig", "how many tokens a step denoises, and how often", "canvas_length max_denoising_steps"),
    section("ReasoningConfig", "whether the sampler keeps a budget of thinking, and for which tokens",
            """reasoning_parser reasoning_start_str reasoning_end_str _reasoning_start_token_ids
            _reasoning_end_token_ids _natural_reasoning_end_token_ids _enabled"""),
    section("EngramConfig", "where look-up tables lie and who reads them",
            "cpu_offload disk_offload embedding_across_dp dp_shared_memory use_thp"),
    section(
        "LoRAConfig",
        "adapters add kernels to every step",
        """
        max_lora_rank max_loras fully_sharded_loras max_cpu_loras lora_dtype target_modules
        enable_tower_connector_lora specialize_active_lora enable_mixed_moe_lora_format enable_moe_shared_loras
        max_lora_cls_labels
        """,
        leave(Kind.PATH, "adapters of requests with media", "default_mm_loras"),
    ),
    section(
        "LoadConfig",
        "some formats and loaders quantise or pack the weights they read",
        "load_format safetensors_load_strategy model_loader_extra_config device ignore_patterns",
        leave(Kind.PATH, "where downloads lie", "download_dir"),
        leave(Kind.LIFE_CYCLE, "how fast, in which order and over which device, files are read",
              """safetensors_prefetch_num_threads safetensors_prefetch_block_size shuffle_safetensors_files
              pt_load_map_location"""),
        leave(Kind.LOGGING, "a progress bar", "use_tqdm_on_load"),
    ),
)  # fmt: skip
