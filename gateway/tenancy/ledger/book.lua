-- Functions that book requests in Redis. The scripts of the quota store start with this text.
-- NEW_USERS_PER_DAY and MEASURES, a format of struct, are set before it.
-- Sums are collected, so that each is read and written once in a call. A script that books calls `ledger_write` at the end.

local ledger_sums, ledger_keys = {}, {}

-- Adds *measures* to the sums that `ledger_write` writes to the field *field* of the hash *key*.
local function ledger_add(key, field, measures)
  local more = {struct.unpack(MEASURES, measures)}
  ledger_sums[key] = ledger_sums[key] or {}
  local sum = ledger_sums[key][field]
  if not sum then
    ledger_sums[key][field] = more
    return
  end
  for i = 1, #sum - 1 do -- the last one is where unpacking ended
    sum[i] = sum[i] + more[i]
  end
end

local function ledger_write()
  for key, fields in pairs(ledger_sums) do
    for field, sum in pairs(fields) do
      local text = redis.call('HGET', key, field)
      local former = text and {struct.unpack(MEASURES, text)} or {}
      for i = 1, #sum - 1 do
        sum[i] = sum[i] + (former[i] or 0)
      end
      redis.call('HSET', key, field, struct.pack(MEASURES, unpack(sum, 1, #sum - 1)))
    end
  end
  ledger_sums = {}
end

-- Notes that *part*, a day or a month, has data, and returns its key.
local function ledger_key(base, kind, part)
  local key = base .. kind .. ':' .. part
  if not ledger_keys[key] then
    redis.call('ZADD', base .. kind, 0, part)
    ledger_keys[key] = true
  end
  return key
end

-- Returns whether *field* is in the hash *key*, or will be.
local function ledger_has(key, field)
  return ledger_sums[key] and ledger_sums[key][field] or redis.call('HEXISTS', key, field) == 1
end

-- The arguments are the fields of a `LedgerBooking`, in order. All keys that it writes start with *base*.
local function ledger_book(base, day, record, group, measures, user)
  redis.call('XADD', ledger_key(base, 'records', day), '*', 'r', record)
  ledger_add(ledger_key(base, 'sums', day), group, measures)
  if user ~= '' then
    local users = ledger_key(base, 'users', string.sub(day, 1, 7))
    local field = 'u' .. user
    if not ledger_has(users, field) and redis.call('HINCRBY', users, 'n' .. day, 1) > NEW_USERS_PER_DAY then
      field = 'u' .. OTHER_USERS
    end
    ledger_add(users, field, measures)
  end
end
