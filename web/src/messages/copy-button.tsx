/** Copies a text, and says so by its own icon. */
import { Check, Copy } from 'lucide-react';
import { useEffect, useState, type ReactNode } from 'react';
import { IconButton } from '@/ui/button';
import { tell, tellError } from '@/ui/toast';

export function CopyButton({ text, label = 'Copy', className }: { text: () => string; label?: string; className?: string }): ReactNode {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return undefined;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <IconButton size="small" label={copied ? 'Copied' : label} className={className} onClick={() => void copy(text()).then(setCopied, tellError)}>
      {copied ? <Check /> : <Copy />}
    </IconButton>
  );
}

/** Into the clipboard, where the browser lets a page do that: it needs https or localhost. */
async function copy(text: string): Promise<boolean> {
  const { clipboard } = navigator as { clipboard?: Clipboard };
  if (!clipboard) {
    tell('The browser lets a page copy only over https or from localhost.', { bad: true });
    return false;
  }
  await clipboard.writeText(text);
  return true;
}
